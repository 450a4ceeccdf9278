"""Events: changes of an environment at start-up, at resets, in each step, or at intervals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import mujoco
import torch

from envlab.config import NonNegativeInt
from envlab.envs.managers.function_term import FunctionTermCfg, bind, record_anew, with_params
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import terms_of
from envlab.envs.masks import assign, clear
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, did_you_mean, name_term
from envlab.sim.host import on_host
from envlab.sim.simulation import SimulationCfg
from envlab.state import State

MODES = ("prestartup", "startup", "reset", "interval", "step")
"""When terms are called without being asked to; any other mode is a name of one's own."""

_PARAMS = ("params.", "constants.")
"""Beginnings of the names in a simulation's state that are parameters of its model."""

Needs = tuple[str, ...] | Callable[[Mapping[str, Any]], tuple[str, ...]]
"""Fields that a term needs, or a function that returns them for the term's parameters."""
Func = TypeVar("Func", bound=Callable[..., Any])


@dataclass(kw_only=True)
class EventTermCfg(FunctionTermCfg):
    """``func(env, mask, stream, **params)`` changes the environments of ``mask``.

    ``stream`` is the term's own random stream, so that its draws do not depend on other terms.
    """

    mode: str
    """``prestartup``: ``func(env, spec, **params)`` edits the ``mujoco.MjSpec`` before it is
    compiled, alike on all processes. ``startup``: once, on all environments. ``reset``: when an
    episode begins; the function edits ``env.reset_qpos`` and ``env.reset_qvel``. ``interval``: see
    :attr:`interval_range_s`. ``step``: in each step, after its resets. A name of one's own: when
    code calls ``env.event_manager.apply(name, mask)``."""
    interval_range_s: tuple[float, float] | None = None
    """Bounds of the time between two calls, in seconds, drawn per environment."""
    is_global_time: bool = False
    """Whether one clock, which resets do not touch, calls an ``interval`` term in all environments
    at the same time, as in Isaac Lab."""
    resample_interval_on_reset: bool = True
    """Whether the clock of an ``interval`` term restarts with each episode."""
    min_step_count_between_reset: NonNegativeInt = 0
    """Minimum number of an environment's steps between two calls of a ``reset`` term; resets in
    between skip it."""


def requires_model_fields(*fields: str, given: Needs = ()) -> Callable[[Func], Func]:
    """Name the model fields that an event changes; they join ``env.sim.model_fields``.

    Args:
        fields: Those that it always needs.
        given: Instead, a function of the term's parameters that returns them.
    """

    def mark(func: Func) -> Func:
        func.model_fields = given or fields  # type: ignore[attr-defined]
        return func

    return mark


def with_event_fields(sim: SimulationCfg, events: Any) -> SimulationCfg:
    """Return the settings of physics with the fields that event terms need."""
    return replace(
        sim,
        model_fields=_with_needs("model_fields", sim.model_fields, events),
        data_fields=_with_needs("data_fields", sim.data_fields, events),
    )


def _with_needs(kind: str, own: Sequence[str], events: Any) -> tuple[str, ...]:
    names = list(own)
    for term in terms_of(events, EventTermCfg).values():
        needs: Needs = getattr(term.func, kind, ())
        names += needs(term.params) if callable(needs) else needs
    return tuple(dict.fromkeys(names))


def edit_spec(events: Any, env: VectorEnv, spec: mujoco.MjSpec) -> None:
    """Call the ``prestartup`` terms."""
    for name, term in terms_of(events, EventTermCfg).items():
        if term.mode == "prestartup":
            try:
                term.func(env, spec, **term.params)
            except Exception as error:
                name_term(error, "event", name)
                raise


class EventManager:
    """Calls event terms when they are due."""

    STATE = State(per_env_by_name=("_time_left", "_ages"))

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._env = env
        terms = {
            name: term
            for name, term in terms_of(cfg, EventTermCfg).items()
            if term.mode != "prestartup"
        }
        self._functions: dict[str, dict[str, functools.partial[None]]] = {}
        self._intervals: dict[str, tuple[float, float]] = {}
        self._time_left: dict[str, torch.Tensor] = {}
        self._global: set[str] = {name for name, term in terms.items() if term.is_global_time}
        self._changes_params = False
        self._keeps_clock = {
            name
            for name, term in terms.items()
            if term.is_global_time or not term.resample_interval_on_reset
        }
        self._params_at_start: dict[str, torch.Tensor] | None = None
        """Model parameters after the ``startup`` terms, if terms change them that not every reset
        calls."""
        self._least_ages: dict[str, int] = {}
        self._ages: dict[str, torch.Tensor] | None = None  # so that older runs need not have it
        """Steps since ``reset`` terms with a minimum number of them were called, by name."""
        for name, term in terms.items():
            self._functions.setdefault(term.mode, {})[name] = bind(
                term, env, sensors, f"events.{name}"
            )
            _check_mode(name, term)
            is_at_each_reset = term.mode == "reset" and not term.min_step_count_between_reset
            if getattr(term.func, "model_fields", ()) and term.mode != "startup":
                self._changes_params |= not is_at_each_reset
            if term.interval_range_s is not None:
                self._intervals[name] = term.interval_range_s
                self._time_left[name] = torch.zeros(env.num_envs, device=env.device)
            if term.min_step_count_between_reset:
                least = self._least_ages[name] = term.min_step_count_between_reset
                age = torch.full((env.num_envs,), least, device=env.device)
                self._ages = (self._ages or {}) | {name: age}

    @property
    def active_terms(self) -> dict[str, list[str]]:
        """Names of the terms by mode."""
        return {mode: list(functions) for mode, functions in self._functions.items()}

    def apply(self, mode: str, mask: torch.Tensor | None = None) -> None:
        """Call the terms of ``mode`` on the environments of ``mask``, bool ``(num_envs,)``.

        None selects all of them. Changed parameters of the model take effect at the end.
        """
        functions = self._functions.get(mode)
        if not functions:
            return
        if mask is None:
            mask = torch.ones_like(self._env.env_ids, dtype=torch.bool)
        with self._env.sim.params_applied_once():
            for name, function in functions.items():
                due = mask
                if self._ages is not None and name in self._ages:
                    due = mask & (self._ages[name] >= self._least_ages[name])
                    clear(self._ages[name], due)
                self._call(name, function, due)

    def start(self) -> None:
        """Call the ``startup`` terms."""
        self.apply("startup")
        if self._changes_params:
            state = self._env.sim.state()
            kept = {name: value for name, value in state.items() if name.startswith(_PARAMS)}
            self._params_at_start = kept

    def get_params(self, name: str) -> dict[str, Any]:
        """Return the current parameters of a term, by name."""
        return dict(self._terms_of_mode(name)[name].keywords)

    def set_params(self, name: str, params: Mapping[str, Any]) -> None:
        """Change parameters of a term, as a curriculum does that remembers them.

        Raises:
            ConfigurationError: If there is no such term or parameter.
        """
        terms = self._terms_of_mode(name)
        changed = with_params(terms[name], params)
        if changed is not None and not self._env.is_rehearsing:
            terms[name] = changed
            record_anew(self._env)

    def _terms_of_mode(self, name: str) -> dict[str, functools.partial[None]]:
        for terms in self._functions.values():
            if name in terms:
                return terms
        names = [name for terms in self._functions.values() for name in terms]
        raise ConfigurationError(
            f"There is no event {name!r}; there are {', '.join(names) or 'none'}."
            f"{did_you_mean(name, names)}"
        )

    def begin_step(self) -> None:
        """Count a step, before its physics."""
        if self._ages is not None:
            for age in self._ages.values():
                age += 1

    def reset(self, mask: torch.Tensor) -> None:
        """Draw new times for the interval terms of the environments of ``mask``."""
        for name in self._intervals:
            # A global clock is set once, before the first step.
            begins = mask & (self._time_left[name] == 0.0) if name in self._keeps_clock else mask
            self._draw_interval(name, "reset", begins)

    def restart(self) -> None:
        """Restart all terms at the next reset, because a new seed repeats all draws."""
        if self._params_at_start is not None:
            sim = self._env.sim
            sim.set_state({**sim.state(), **self._params_at_start})
        for name in self._keeps_clock & self._time_left.keys():
            self._time_left[name].zero_()
        for name, least in self._least_ages.items():
            self._ages[name].fill_(least)  # type: ignore[index]

    def end_step(self, dt: float) -> None:
        """Call the ``step`` terms, let ``dt`` seconds pass and call the interval terms due."""
        self.apply("step")
        functions = self._functions.get("interval")
        if not functions:
            return
        with self._env.sim.params_applied_once():
            for name, function in functions.items():
                self._time_left[name] -= dt
                due = self._time_left[name] < 0.5 * dt  # at the nearest step, whatever the rounding
                if not on_host(self._env.device) or due.any():
                    self._call(name, function, due)
                    self._draw_interval(name, "due", due)

    def before_restore(self) -> None:
        """Mark all times, to know afterwards which were not saved."""
        for left in self._time_left.values():
            left.fill_(torch.nan)
        for name, least in self._least_ages.items():
            self._ages[name].fill_(least)  # type: ignore[index]

    def on_restore(self) -> None:
        """Restart the terms that were not saved."""
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


def _check_mode(name: str, term: EventTermCfg) -> None:
    """Refuse a misspelt mode, and settings that belong to another.

    Raises:
        ConfigurationError: Naming the term.
    """
    meant = "" if term.mode in MODES else did_you_mean(term.mode, MODES)
    if meant:
        raise ConfigurationError(
            f"env.events.{name} has mode {term.mode!r}, which is too similar to one of "
            f"{', '.join(MODES)}.{meant} Give your own mode another name."
        )
    if (term.mode == "interval") != (term.interval_range_s is not None):
        raise ConfigurationError(
            f"env.events.{name} has mode {term.mode!r} and interval_range_s "
            f"{term.interval_range_s}; an interval event needs a range, the others have none."
        )
    if term.mode != "reset" and term.min_step_count_between_reset:
        raise ConfigurationError(
            f"env.events.{name} has mode {term.mode!r} and min_step_count_between_reset="
            f"{term.min_step_count_between_reset}, which is for reset events alone. Leave it out."
        )
