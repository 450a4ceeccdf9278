"""Rewards: the weighted sum of terms, times the step's duration."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind, check_names, check_shapes
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import terms_of
from envlab.envs.masks import clear
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, did_you_mean, name_term
from envlab.state import State


@dataclass(kw_only=True)
class RewardTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns ``(num_envs,)``; it counts ``weight * step_dt`` times."""

    weight: float
    """Reward per second for a term value of 1."""


class RewardManager:
    """Sums reward terms, and keeps each term's sum over the episode for the log."""

    STATE = State(per_env_by_name=("episode_sums",), shared=("_new_params", "_new_weights"))

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._env = env
        terms = terms_of(cfg, RewardTermCfg)
        self.active_terms = list(terms)
        """Names of the terms."""
        self._log_names = [f"Episode_Reward/{name}" for name in terms]
        self._functions = [
            bind(term, env, sensors, f"rewards.{name}") for name, term in terms.items()
        ]
        self._initial = list(self._functions)
        self._new_params: dict[str, dict[str, Any]] = {}
        """Parameters that a curriculum has changed, by term."""
        self._new_weights: dict[str, float] = {}
        """Weights that a curriculum has changed, by term. Others are the configuration's, also
        when a run is resumed with other weights."""
        self._weights = [float(term.weight) for term in terms.values()]
        self._initial_weights = list(self._weights)
        per_step = [weight * env.step_dt for weight in self._weights]
        self._scales = torch.tensor(per_step, device=env.device).reshape(-1, 1)
        self._checked = False
        self._values = torch.zeros(len(terms), env.num_envs, device=env.device)
        self._episode_sums = torch.zeros_like(self._values)

    def compute(self) -> torch.Tensor:
        """Return the step's rewards, ``(num_envs,)``: weight times step duration times value."""
        if not self._functions:
            return torch.zeros(self._env.num_envs, device=self._env.device)
        terms: list[torch.Tensor] = []
        try:
            for function in self._functions:
                terms.append(function())
        except Exception as error:
            name_term(error, "reward", self.active_terms[len(terms)])
            raise
        if not self._checked:
            check_shapes("reward", self.active_terms, terms, self._env.num_envs)
            self._checked = True
        # One matrix, made once, instead of an operation for each term.
        torch.stack(terms, out=self._values)
        self._values *= self._scales
        self._episode_sums += self._values
        return self._values.sum(dim=0)

    @property
    def step_values(self) -> torch.Tensor:
        """Each term's share of the last step's rewards, ``(num_terms, num_envs)``."""
        return self._values

    @property
    def episode_sums(self) -> dict[str, torch.Tensor]:
        """Each term's sum over the episode so far, ``(num_envs,)``, by name."""
        return dict(zip(self.active_terms, self._episode_sums.unbind(), strict=True))

    def not_finite(self) -> dict[str, torch.Tensor]:
        """Return where each term was not finite in the last step, by name if anywhere."""
        bad = ~self._values.isfinite()
        return {name: row for name, row in zip(self.active_terms, bad, strict=True) if row.any()}

    def episode_values(self) -> dict[str, torch.Tensor]:
        """Return ``Episode_Reward/<term>``: the terms' sums over the episode so far."""
        return dict(zip(self._log_names, self._episode_sums.unbind(), strict=True))

    def reset(self, mask: torch.Tensor) -> None:
        """Start new episodes in the environments of ``mask``."""
        if self._functions:
            clear(self._episode_sums.T, mask)

    def get_weight(self, name: str) -> float:
        """Return the current weight of a term."""
        return self._weights[self._index(name)]

    def set_weight(self, name: str, weight: float) -> None:
        """Change the weight of a term, for example from a curriculum."""
        if weight == self.get_weight(name):
            return
        self._new_weights[name] = weight
        self._weights[self._index(name)] = weight
        self._scales[self._index(name), 0] = weight * self._env.step_dt

    def get_params(self, name: str) -> dict[str, Any]:
        """Return the current parameters of a term, by name."""
        return dict(self._functions[self._index(name)].keywords)

    def check_params(self, name: str, params: Iterable[str]) -> None:
        """Refuse names that are not parameters of a term; see :meth:`set_params`."""
        check_names(self._functions[self._index(name)].func, params)

    def set_params(self, name: str, params: Mapping[str, Any]) -> None:
        """Change parameters of a term, for example from a curriculum, from the next step on.

        Args:
            name: The term.
            params: Numbers, text, and lists of these.

        Raises:
            ConfigurationError: If there is no such term, or its function has no such parameter.
        """
        index = self._index(name)
        bound = self._functions[index]
        merged = {**bound.keywords, **params}
        if merged == bound.keywords or self._env.is_rehearsing:
            return
        self.check_params(name, params)
        self._functions[index] = functools.partial(bound.func, *bound.args, **merged)
        self._new_params[name] = {**self._new_params.get(name, {}), **params}
        if self._env.recording is not None:
            self._env.recording.record_anew()

    def before_restore(self) -> None:
        """Start from the initial values, like terms that were not saved."""
        self._episode_sums.zero_()
        self._functions, self._new_params = list(self._initial), {}
        for name, weight in zip(self.active_terms, self._initial_weights, strict=True):
            self.set_weight(name, weight)
        self._new_weights = {}

    def on_restore(self) -> None:
        """Change what curricula had changed of the terms that there are."""
        params, weights = self._new_params, self._new_weights
        self._new_params, self._new_weights = {}, {}
        for name in self.active_terms:
            if name in params:
                self.set_params(name, params[name])
            if name in weights:
                self.set_weight(name, weights[name])

    def _index(self, name: str) -> int:
        if name not in self.active_terms:
            raise ConfigurationError(
                f"There is no reward term {name!r}; there are {', '.join(self.active_terms)}."
                f"{did_you_mean(name, self.active_terms)}"
            )
        return self.active_terms.index(name)
