"""Configuration that all environments share (``env.*``)."""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from envlab.config import PositiveFloat, PositiveInt, UnitInterval
from envlab.envs.scene import SceneCfg
from envlab.errors import ConfigurationError
from envlab.sim.simulation import SimulationCfg

T = TypeVar("T")


def default(value: T) -> T:
    """Return a dataclass field whose default is a copy of ``value``.

    Each configuration gets its own copy, which an override may change::

        alive: RewardTermCfg = default(RewardTermCfg(func=mdp.is_alive, weight=1.0))
    """
    made: T = field(default_factory=functools.partial(copy.deepcopy, value))
    return made


MOST_STEPS = 2**31
"""The most environment steps that an episode may last."""


@dataclass(kw_only=True)
class NanGuardCfg:
    """Handling of physics, observations or rewards that are not finite (``env.nan_guard.*``)."""

    max_bad_share: UnitInterval = 0.05
    """Share of environments that may be reset for it in one step (on a GPU: on average between two
    health checks). More stops the run, with the offending states saved."""


@dataclass(kw_only=True)
class EnvCfg:
    """Configuration of an :class:`envlab.envs.VectorEnv`."""

    decimation: PositiveInt = 1
    """Physics steps per environment step."""
    episode_length_s: PositiveFloat = 10.0
    """Time limit of an episode, in seconds; at least an environment step."""
    is_finite_horizon: bool = False
    """Whether the time limit is part of the task, so that it ends an episode like a failure."""
    seed: int | None = None
    """Base seed of the environments' random streams; null: the agent's."""
    sim: SimulationCfg = field(default_factory=SimulationCfg)
    """Physics."""
    scene: SceneCfg = field(default_factory=SceneCfg)
    """Model and number of environments."""
    graph: Literal["auto", "off", "on", "compiled"] = "auto"
    """Whether a step on a GPU is recorded as graphs, see :mod:`envlab.sim.recording`. ``auto``: if
    the task allows it, which ``envlab check`` tells on a CPU; ``on``: else it is an error.
    ``compiled``: on any device, torch's operations in a step are compiled
    (:mod:`envlab.sim.compiled`; needs a C++ compiler, on a GPU Triton), and round differently."""
    nan_guard: NanGuardCfg = field(default_factory=NanGuardCfg)
    """Limits for non-finite values."""

    def __todays_values__(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of an earlier file, where ``graph=compiled`` was ``sim.compile``."""
        sim = values.get("sim")
        if not isinstance(sim, dict) or "compile" not in sim:
            return values
        sim = dict(sim)
        is_compiled = sim.pop("compile")
        return values | {"sim": sim} | ({"graph": "compiled"} if is_compiled else {})

    @property
    def step_dt(self) -> float:
        """Environment step, in seconds."""
        return self.sim.dt * self.decimation

    @property
    def max_episode_length(self) -> int:
        """Time limit in environment steps: ``ceil(episode_length_s / step_dt)``."""
        # The tolerance keeps 0.55 s / (11 * 0.001 s) at 50, where division gives 50.00000000000001.
        return math.ceil(self.episode_length_s / (self.sim.dt * self.decimation) - 1e-6)

    def check_values(self, path: str) -> None:
        """Refuse an episode that is shorter than a step, or has more steps than are counted.

        Raises:
            ConfigurationError: With both durations.
        """
        if self.episode_length_s < self.step_dt * (1 - 1e-6):
            raise ConfigurationError(
                f"{path}.episode_length_s is {self.episode_length_s:g} s, but an environment step "
                f"({path}.decimation = {self.decimation} physics steps of {path}.sim.dt = "
                f"{self.sim.dt:g} s) takes {self.step_dt:g} s, and an episode must last for at "
                f"least one. Give {path}.episode_length_s in seconds."
            )
        if self.episode_length_s / self.step_dt > MOST_STEPS:
            raise ConfigurationError(
                f"{path}.episode_length_s is {self.episode_length_s:g} s, which are more than "
                f"{MOST_STEPS:,} environment steps of {self.step_dt:g} s. Give at most that."
            )
