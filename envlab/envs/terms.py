"""Terms of a task in one line: ``reward(mdp.joint_pos_limits, -1.0, soft_limit_factor=0.95)``.

Isaac Lab's spelling of the same is ``RewardTermCfg(func=mdp.joint_pos_limits, weight=-1.0,
params={"soft_limit_factor": 0.95})``; a task may mix both. Functions that themselves have a
parameter called ``clip``, ``scale`` or ``time_out`` need the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envlab.envs.managers import (
    EventTermCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.noise import UniformNoiseCfg


def observation(
    func: Callable[..., Any],
    noise: float | None = None,
    /,
    *,
    clip: tuple[float, float] | None = None,
    scale: float | None = None,
    **params: Any,
) -> ObservationTermCfg:
    """Return an observation, with uniform noise of up to ``noise`` both ways."""
    bounds = None if noise is None else UniformNoiseCfg(n_min=-noise, n_max=noise)
    return ObservationTermCfg(func=func, noise=bounds, clip=clip, scale=scale, params=params)


def reward(func: Callable[..., Any], weight: float, /, **params: Any) -> RewardTermCfg:
    """Return a reward; ``weight`` is per second."""
    return RewardTermCfg(func=func, weight=weight, params=params)


def termination(
    func: Callable[..., Any], /, *, time_out: bool = False, **params: Any
) -> TerminationTermCfg:
    """Return a failure, or a time limit."""
    return TerminationTermCfg(func=func, time_out=time_out, params=params)


def at_startup(func: Callable[..., Any], /, **params: Any) -> EventTermCfg:
    """Return an event that changes all environments once."""
    return EventTermCfg(func=func, mode="startup", params=params)


def at_reset(func: Callable[..., Any], /, **params: Any) -> EventTermCfg:
    """Return an event at the start of each episode."""
    return EventTermCfg(func=func, mode="reset", params=params)


def at_intervals(
    interval_range_s: tuple[float, float], func: Callable[..., Any], /, **params: Any
) -> EventTermCfg:
    """Return an event that recurs, each time after a random time from a range in s."""
    return EventTermCfg(
        func=func, mode="interval", interval_range_s=interval_range_s, params=params
    )
