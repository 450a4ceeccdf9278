"""The configuration of a population (``population.*``), next to that of its members (``agent.*``).

``population.ranges`` has the numbers that differ between members, by their paths: ``[low, high]``,
three or more choices, or a group with ``low``, ``high``, ``scale`` and ``start``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from envlab.agent_cfg import AgentCfg, set_value, value_at
from envlab.config import (
    Excludes,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    check_ranges,
    leaves,
)
from envlab.errors import ConfigurationError, did_you_mean

ROOT = "population"
"""The root of this configuration, which is the name of the entry point."""
_DECADE = 10.0
"""A range of positive numbers whose ends differ by this factor or more is logarithmic."""
_KEYS = ("low", "high", "scale", "start", "choices")
_OF_THE_RUN = ("num_steps_per_env", "seed", "max_iterations", "save_interval")


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
        NonNegativeInt,
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


@dataclass(frozen=True, kw_only=True)
class Span:
    """The possible values of a number."""

    path: str
    """``agent.<...>``."""
    low: float
    high: float
    is_log: bool = False
    """Whether it is drawn on a logarithmic scale."""
    is_whole: bool = False
    """Whether it is a whole number."""
    start: tuple[float, float]
    """Bounds between which the first members draw it."""
    choices: tuple[float, ...] = ()
    """All values that it may have; empty: any from ``low`` to ``high``."""


def spans_of(cfg: PopulationCfg, agent_cfg: AgentCfg) -> list[Span]:
    """Return the numbers that members may differ in.

    Raises:
        ConfigurationError: If there are none, or no possible population.
    """
    if cfg.size == 0:
        if cfg.ranges:
            raise ConfigurationError(
                "population.ranges has no effect on a single learner. Add --population_size, or "
                "leave it out."
            )
        return []
    if cfg.size == 1:
        raise ConfigurationError(
            "population.size is 1, but a population needs two members or more to compare. Give 2 "
            "or more, or leave it out."
        )
    spans = [_span(path, value, agent_cfg) for path, value in _flat(cfg.ranges, "")]
    if not spans:
        raise ConfigurationError(
            "population.ranges is empty, so members would differ only by chance. Name a number, as "
            "in 'population.ranges.agent.algorithm.learning_rate=[1e-4,1e-2]'."
        )
    agent_cfg.check_members([span.path for span in spans])
    return spans


def label(path: str, paths: Sequence[str]) -> str:
    """Return the last name of a path, or all of it if another one ends in the same name."""
    name = path.rpartition(".")[2]
    same = [other for other in paths if other.rpartition(".")[2] == name]
    return name if len(same) == 1 else path


def with_values(agent_cfg: Any, values: Mapping[str, float]) -> Any:
    """Return an agent's configuration with a member's hyper-parameters."""
    for path, value in values.items():
        agent_cfg = set_value(agent_cfg, path.removeprefix("agent."), value)
    return agent_cfg


def _flat(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of ``population.ranges`` by dotted path."""
    for name, value in node.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, Mapping) and not set(_KEYS) & set(value):
            yield from _flat(value, path)
        else:
            yield path, value


def _span(path: str, value: Any, agent_cfg: AgentCfg) -> Span:
    at = f"population.ranges.{path}"
    now = _number_at(path, at, agent_cfg)
    given = dict(value) if isinstance(value, Mapping) else {}
    if isinstance(value, list):
        given = {"choices": value}
        if len(value) == 2:
            given = dict(zip(("low", "high"), value, strict=True))
    if not given or set(given) - set(_KEYS) or ("choices" in given and len(given) > 1):
        raise ConfigurationError(
            f"{at} is {value!r}, but must be [low, high], a list of three or more choices, "
            "{choices: [...]}, or {low: ..., high: ..., scale: log or linear, start: [low, high]}."
        )
    choices = _numbers(given.get("choices", []), at, value)
    if choices:
        given = {"low": min(choices), "high": max(choices)}
    low, high = _numbers([given.get("low"), given.get("high")], at, value)
    if not low < high:
        raise ConfigurationError(
            f"{at} goes from {low:g} to {high:g}: its ends are "
            f"{'equal' if low == high else 'swapped'}. Write the smaller one first."
        )
    start = _numbers(given.get("start", [low, high]), at, value)
    if len(start) != 2 or not low <= start[0] < start[1] <= high:
        raise ConfigurationError(
            f"{at}.start is {given['start']}, but must be two rising numbers from {low:g} to "
            f"{high:g}."
        )
    scale = given.get("scale", "log" if low > 0 and high / low >= _DECADE else "linear")
    if scale not in ("log", "linear") or (scale == "log" and low <= 0):
        raise ConfigurationError(
            f"{at} has the scale {scale!r} from {low:g} on, but must be linear, or log with "
            "numbers above 0."
        )
    is_whole = isinstance(now, int)
    if is_whole and not all(one.is_integer() for one in (low, high, *start, *choices)):
        raise ConfigurationError(f"{at} is {value!r}, but must hold whole numbers only.")
    for end in (low, high, *start):
        changed = with_values(agent_cfg, {path: int(end) if is_whole else end})
        check_ranges({"agent": changed})
    return Span(
        path=path,
        low=low,
        high=high,
        is_log=scale == "log",
        is_whole=is_whole,
        start=(start[0], start[1]),
        choices=tuple(int(choice) if is_whole else choice for choice in choices),
    )


def _number_at(path: str, at: str, agent_cfg: AgentCfg) -> float:
    """Return the current number at a path.

    Raises:
        ConfigurationError: If there is no such path, or no number there that may differ between
            members.
    """
    numbers = [
        name
        for name, value in leaves(agent_cfg, "agent")
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    name = path.removeprefix("agent.")
    if path not in numbers:
        found = value_at(agent_cfg, name) if path.startswith("agent.") else None
        problem = "names no number" if found is None else f"names {found!r}, not a number"
        raise ConfigurationError(
            f"{at} {problem} that members could differ in.{did_you_mean(path, numbers)}"
        )
    if name in {agent_cfg.FLAGS.get(one, one) for one in _OF_THE_RUN}:
        raise ConfigurationError(
            f"{at} is of the run, and so the same for all members. Leave it out."
        )
    return value_at(agent_cfg, name)  # type: ignore[no-any-return]


def _numbers(values: Any, at: str, given: Any) -> list[float]:
    if not isinstance(values, list) or not all(
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        for value in values
    ):
        raise ConfigurationError(f"{at} is {given!r}, but must hold finite numbers only.")
    return [float(value) for value in values]
