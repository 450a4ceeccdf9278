"""Observations: groups of terms, each term scaled, clipped and corrupted as configured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.noise import NoiseCfg, refuse_bias
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, name_term


@dataclass(kw_only=True)
class ObservationTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns ``(num_envs, k)``; then noise, clip, scale, in this order."""

    noise: NoiseCfg | None = None
    """Noise, where the group's ``enable_corruption`` is true."""
    clip: tuple[float, float] | None = None
    """Bounds."""
    scale: float | None = None
    """Factor."""


@dataclass(kw_only=True)
class ObservationGroupCfg(TermCfg):
    """A group of terms; a task adds one field per term."""

    enable_corruption: bool = False
    """Whether the terms' noise is applied."""


class ObservationManager:
    """Computes each group as one ``(num_envs, dim)`` tensor, its terms in field order."""

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._env = env
        self._groups = terms_of(cfg, ObservationGroupCfg)
        self._checked = False
        self._widths: dict[tuple[str, str], int] = {}
        if "policy" not in self._groups:
            raise ConfigurationError("env.observations needs a group called 'policy'.")
        self._terms: dict[str, dict[str, tuple[ObservationTermCfg, Callable[[], torch.Tensor]]]] = {
            group: {
                name: (term, bind(term, env, sensors))
                for name, term in terms_of(group_cfg, ObservationTermCfg).items()
            }
            for group, group_cfg in self._groups.items()
        }
        for group, terms in self._terms.items():
            for name, (term, _) in terms.items():
                refuse_bias(term.noise, f"env.observations.{group}.{name}.noise")
        self._streams = {
            (group, name): env.random.stream(f"obs.{group}.{name}")
            for group, terms in self._terms.items()
            for name, (term, _) in terms.items()
            if term.noise is not None
        }
        empty = [group for group, terms in self._terms.items() if not terms]
        if empty:
            raise ConfigurationError(
                f"The observation group {empty[0]!r} has no terms; keep one, or remove the group."
            )

    @property
    def active_terms(self) -> dict[str, list[str]]:
        """Names of the terms by group."""
        return {group: list(terms) for group, terms in self._terms.items()}

    def terms(
        self, group: str = "policy"
    ) -> dict[str, tuple[ObservationTermCfg, Callable[[], torch.Tensor]]]:
        """Return the terms of a group: each configuration, and the function with its parameters."""
        return dict(self._terms[group])

    def columns(self, group: str = "policy") -> dict[str, slice]:
        """Return each term's columns in a group, once observations have been computed."""
        end = 0
        return {
            name: slice(end, end := end + self._widths[group, name]) for name in self._terms[group]
        }

    def not_finite(self) -> dict[str, torch.Tensor]:
        """Return where each term is not finite now, bool ``(num_envs,)``, by name if anywhere."""
        found = {
            name: ~function().isfinite().flatten(1).all(1)
            for terms in self._terms.values()
            for name, (_, function) in terms.items()
        }
        return {name: bad for name, bad in found.items() if bad.any()}

    def compute(self, *, corrupt: bool) -> dict[str, torch.Tensor]:
        """Return all groups, each ``(num_envs, dim)``; ``corrupt``: with noise where enabled."""
        observations = {}
        for group, terms in self._terms.items():
            is_noisy, values = corrupt and self._groups[group].enable_corruption, []
            for name, (cfg, function) in terms.items():
                try:
                    value = function()
                except Exception as error:
                    name_term(error, "observation", name)
                    raise
                if not self._checked:
                    self._check(group, name, value)
                if is_noisy and cfg.noise is not None:
                    value = cfg.noise.apply(value, self._streams[group, name])
                if cfg.clip is not None:
                    value = value.clamp(*cfg.clip)
                if cfg.scale is not None:
                    value = value * cfg.scale
                values.append(value)
            observations[group] = torch.cat(values, dim=-1)
        self._checked = True
        return observations

    def _check(self, group: str, name: str, value: torch.Tensor) -> None:
        """Refuse a term that cannot be joined with the others; called in the first computation."""
        if value.dim() < 2 or len(value) != self._env.num_envs:
            raise ConfigurationError(
                f"The observation term {name!r} of group {group!r} returned shape "
                f"{tuple(value.shape)}, but must return ({self._env.num_envs}, k)."
            )
        self._widths[group, name] = value.shape[-1]
