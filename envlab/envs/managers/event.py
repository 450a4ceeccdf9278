"""Events: changes of an environment at start-up, at resets, or every so often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import terms_of
from envlab.envs.masks import assign
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, name_term
from envlab.sim.host import on_host
from envlab.state import State


@dataclass(kw_only=True)
class EventTermCfg(FunctionTermCfg):
    """``func(env, mask, stream, **params)`` changes the environments of ``mask``.

    ``stream`` is the term's own random stream, so that its draws do not depend on other terms.
    """

    mode: Literal["startup", "reset", "interval"]
    """``startup``: once, on all environments. ``reset``: when an episode begins; the function edits
    ``env.reset_qpos`` and ``env.reset_qvel``. ``interval``: see :attr:`interval_range_s`."""
    interval_range_s: tuple[float, float] | None = None
    """Bounds of the time between two calls, in seconds, drawn per environment."""
    is_global_time: bool = False
    """Whether one clock, which resets do not touch, calls an ``interval`` term in all environments
    at the same time, as in Isaac Lab."""


class EventManager:
    """Calls event terms when they are due."""

    STATE = State(per_env_by_name=("_time_left",))

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._env = env
        terms = terms_of(cfg, EventTermCfg)
        self._functions: dict[str, dict[str, Callable[..., None]]] = {}
        self._intervals: dict[str, tuple[float, float]] = {}
        self._time_left: dict[str, torch.Tensor] = {}
        self._global: set[str] = {name for name, term in terms.items() if term.is_global_time}
        for name, term in terms.items():
            self._functions.setdefault(term.mode, {})[name] = bind(
                term, env, sensors, f"events.{name}"
            )
            if (term.mode == "interval") != (term.interval_range_s is not None):
                raise ConfigurationError(
                    f"env.events.{name} has mode {term.mode!r} and interval_range_s "
                    f"{term.interval_range_s}; an interval event needs a range, the others have "
                    "none."
                )
            if term.interval_range_s is not None:
                self._intervals[name] = term.interval_range_s
                self._time_left[name] = torch.zeros(env.num_envs, device=env.device)

    @property
    def active_terms(self) -> dict[str, list[str]]:
        """Names of the terms by mode."""
        return {mode: list(functions) for mode, functions in self._functions.items()}

    def apply(self, mode: Literal["startup", "reset"], mask: torch.Tensor) -> None:
        """Call the terms of ``mode`` on the environments of ``mask``."""
        for name, function in self._functions.get(mode, {}).items():
            self._call(name, function, mask)

    def reset(self, mask: torch.Tensor) -> None:
        """Draw new times for the interval terms of the environments of ``mask``."""
        for name in self._intervals:
            # A global clock is set once, before the first step.
            begins = mask & (self._time_left[name] == 0.0) if name in self._global else mask
            self._draw_interval(name, "reset", begins)

    def restart(self) -> None:
        """Let global clocks begin anew at the next reset, as a new seed repeats all draws."""
        for name in self._global:
            self._time_left[name].zero_()

    def apply_intervals(self, dt: float) -> None:
        """Let ``dt`` seconds pass and call the interval terms that are due."""
        for name, function in self._functions.get("interval", {}).items():
            self._time_left[name] -= dt
            due = self._time_left[name] < 0.5 * dt  # at the nearest step, whatever the rounding
            if not on_host(self._env.device) or due.any():
                self._call(name, function, due)
                self._draw_interval(name, "due", due)

    def before_restore(self) -> None:
        """Mark all times, to know afterwards which were not saved."""
        for left in self._time_left.values():
            left.fill_(torch.nan)

    def on_restore(self) -> None:
        """Let terms that were not saved begin anew."""
        for name, left in self._time_left.items():
            is_new = left.isnan()
            if is_new.any():
                self._draw_interval(name, "reset", is_new)

    def _call(self, name: str, function: Callable[..., None], mask: torch.Tensor) -> None:
        try:
            function(mask=mask, stream=self._env.random.stream(f"events.{name}"))
        except Exception as error:
            name_term(error, "event", name)
            raise

    def _draw_interval(self, name: str, reason: str, mask: torch.Tensor) -> None:
        # One stream per reason: whether another environment was reset in this tick must not shift
        # this one's draws, which would make them depend on how environments are spread over
        # processes.
        stream = self._env.random.stream(
            f"events.{name}.interval.{reason}", shared=name in self._global
        )
        drawn = stream.uniform(*self._intervals[name], 1)[:, 0]
        assign(self._time_left[name], mask, drawn)
