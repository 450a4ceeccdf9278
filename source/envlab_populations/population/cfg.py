"""The configuration of a population, ``population.*``, next to that of its members."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from envlab.config import Excludes, NonNegativeInt, PositiveFloat, PositiveInt, Range

ROOT = "population"
"""The root of this configuration, which is the name of the entry point."""


@dataclass(kw_only=True)
class StrategyCfg:
    """Who gives way to whom when members meet; of members of every kind."""

    ROOT: ClassVar[str] = ROOT
    """Where a configuration has it, for messages."""

    size: NonNegativeInt = 0
    """Number of members."""
    strategy: str = "truncation"
    """Who copies whom: ``truncation``, ``tournament``, or an installed package's."""
    exploit: Annotated[float, Range(above=0, at_most=0.5)] = 0.25
    """With ``truncation``: share of the members that copy as many of the fittest; at least one."""
    tournament_size: PositiveInt = 2
    """With ``tournament``: members drawn for each place; the fittest of them is copied."""
    elitism: bool = True
    """With ``tournament``: whether the fittest stays."""


@dataclass(kw_only=True)
class PopulationCfg(StrategyCfg):
    """A population of any library's learners."""

    size: Annotated[
        int,
        Range(at_least=2, also=0),
        Excludes(
            "--global_num_envs agent.lr_scaling --grad_sync --video",
            "each member is trained by one process, in its own --num_envs environments",
        ),
        Excludes("agent.overlap", "the members of a process take turns"),
    ] = 0
    """Number of members; 0: one learner, and no population."""
    interval: PositiveInt = 10
    """Iterations between two meetings, at which the least fit copy the fittest."""
    ranges: dict[str, Any] = field(default_factory=dict)
    """How members may differ: by path of ``agent.*``, ``[low, high]``, choices, or a group."""
    explore: Literal["perturb", "resample"] = "perturb"
    """Whether copied numbers are multiplied by one of ``factors``, or drawn again."""
    factors: list[PositiveFloat] = field(default_factory=lambda: [0.8, 1.2])
    """Factors for numbers; 0.8 and 1.2 are the paper's (Jaderberg et al. 2017)."""
