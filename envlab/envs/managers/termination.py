"""Terminations, and whether an episode that ended has succeeded."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from envlab.envs.managers.function_term import (
    FunctionTermCfg,
    bind,
    check_names,
    check_shapes,
    record_anew,
    with_params,
)
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import terms_of
from envlab.envs.masks import clear
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, did_you_mean, name_term
from envlab.state import State


@dataclass(kw_only=True)
class TerminationTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns bool ``(num_envs,)``."""

    time_out: bool = False
    """Whether the term is a time limit, after which the value of the state still counts."""


class TerminationManager:
    """Combines termination terms; reward terms may read :attr:`terminated` of the same step."""

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._env = env
        terms = terms_of(cfg, TerminationTermCfg)
        self.active_terms = list(terms)
        """Names of the terms."""
        self._log_names = [f"Episode_Termination/{name}" for name in terms]
        self._functions = [
            bind(term, env, sensors, f"terminations.{name}") for name, term in terms.items()
        ]
        self._time_out_ids = [i for i, term in enumerate(terms.values()) if term.time_out]
        self._failure_ids = [i for i, term in enumerate(terms.values()) if not term.time_out]
        self._none = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self._values = [self._none] * len(terms)
        self._checked = False
        self.terminated = self._none
        """Environments that failed in this step, bool ``(num_envs,)``."""
        self.time_outs = self._none
        """Environments that reached a time limit in this step, bool ``(num_envs,)``."""

    def compute(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return :attr:`terminated` and :attr:`time_outs` of the current state."""
        values: list[torch.Tensor] = []
        try:
            for function in self._functions:
                values.append(function())
        except Exception as error:
            name_term(error, "termination", self.active_terms[len(values)])
            raise
        self._values = values
        if not self._checked:
            check_shapes("termination", self.active_terms, self._values, len(self._none))
            self._checked = True
        self.terminated, self.time_outs = (
            values[ids[0]] if len(ids) == 1 else self._any_of(ids)
            for ids in (self._failure_ids, self._time_out_ids)
        )
        return self.terminated, self.time_outs

    def get_params(self, name: str) -> dict[str, Any]:
        """Return the current parameters of a term, by name."""
        return dict(self._functions[self._index(name)].keywords)

    def check_params(self, name: str, params: Iterable[str]) -> None:
        """Refuse names that are not parameters of a term."""
        check_names(self._functions[self._index(name)].func, params)

    def set_params(self, name: str, params: Mapping[str, Any]) -> None:
        """Change parameters of a term, as a curriculum does that remembers them.

        Raises:
            ConfigurationError: If there is no such term or parameter.
        """
        index = self._index(name)
        changed = with_params(self._functions[index], params)
        if changed is not None and not self._env.is_rehearsing:
            self._functions[index] = changed
            record_anew(self._env)

    def _index(self, name: str) -> int:
        if name not in self.active_terms:
            raise ConfigurationError(
                f"There is no termination term {name!r}; there are "
                f"{', '.join(self.active_terms)}.{did_you_mean(name, self.active_terms)}"
            )
        return self.active_terms.index(name)

    def episode_values(self) -> dict[str, torch.Tensor]:
        """Return ``Episode_Termination/<term>``: whether each term ends the episode now, bool."""
        return dict(zip(self._log_names, self._values, strict=True))

    def _any_of(self, ids: list[int]) -> torch.Tensor:
        if not ids:
            return self._none
        return functools.reduce(torch.logical_or, map(self._values.__getitem__, ids))


@dataclass(kw_only=True)
class SuccessTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns bool, or a share from 0 to 1, ``(num_envs,)``."""


class SuccessManager:
    """Keeps the maximum success of each episode so far: a success is never lost again.

    The mean over the episodes that end is logged as ``Metrics/success_rate``, as in Isaac Lab 3.
    """

    STATE = State(per_env=("_values",))

    def __init__(self, cfg: SuccessTermCfg | None, env: VectorEnv, sensors: SensorManager) -> None:
        self._function = None if cfg is None else bind(cfg, env, sensors, "success")
        self._values = torch.zeros(env.num_envs, device=env.device)
        self.values = None if cfg is None else self._values
        """Success of the episodes so far, float32 ``(num_envs,)``; None if the task has none."""
        self._checked = False

    def compute(self) -> None:
        """Look at the state after a step."""
        if self._function is None:
            return
        try:
            now = self._function()
        except Exception as error:
            name_term(error, "success", "success")
            raise
        if not self._checked:
            check_shapes("success", ["success"], [now], len(self._values))
            self._checked = True
        torch.maximum(self._values, now.float(), out=self._values)

    def reset(self, mask: torch.Tensor) -> None:
        """Start new episodes in the environments of ``mask``."""
        if self._function is not None:
            clear(self._values, mask)

    def episode_values(self) -> dict[str, torch.Tensor]:
        """Return ``Metrics/success_rate`` of the episodes so far."""
        return {} if self._function is None else {"Metrics/success_rate": self._values}
