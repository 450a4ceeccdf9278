"""Observations: groups of terms, each term scaled, clipped and corrupted as configured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.noise import NoiseCfg, UniformNoiseCfg, refuse_bias
from envlab.envs.random import Bounds, EnvRandom, RandomStream
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
        self._wholes: dict[str, _Whole] = {}
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
            whole = self._wholes.get(group)
            for name, (_, function) in terms.items():
                try:
                    value = function()
                except Exception as error:
                    name_term(error, "observation", name)
                    raise
                if not self._checked:
                    self._check(group, name, value)
                if whole is None:
                    value = self._finish(group, name, value, is_noisy)
                values.append(value)
            joined = torch.cat(values, dim=-1)
            observations[group] = joined if whole is None else whole.finish(joined, is_noisy)
            if not self._checked and self._env.random.ahead is not None and joined.dim() == 2:
                self._prepare(group)
        self._checked = True
        return observations

    def _finish(self, group: str, name: str, value: torch.Tensor, is_noisy: bool) -> torch.Tensor:
        """Return a term's value as its configuration wants it to be observed."""
        cfg, _ = self._terms[group][name]
        if is_noisy and cfg.noise is not None:
            value = cfg.noise.apply(value, self._streams[group, name])
        if cfg.clip is not None:
            value = value.clamp(*cfg.clip)
        if cfg.scale is not None:
            value = value * cfg.scale
        return value

    def _prepare(self, group: str) -> None:
        """Let a group be finished as a whole from now on, if its noise can be drawn so."""
        terms = self._terms[group]
        parts = [
            (cfg, self._streams.get((group, name)), self._widths[group, name])
            for name, (cfg, _) in terms.items()
        ]
        noises = [cfg.noise for cfg, _, _ in parts if cfg.noise is not None]
        if all(isinstance(noise, UniformNoiseCfg) and noise.operation == "add" for noise in noises):
            self._wholes[group] = _Whole(parts, self._env.random)

    def _check(self, group: str, name: str, value: torch.Tensor) -> None:
        """Refuse a term that cannot be joined with the others; called in the first computation."""
        if value.dim() < 2 or len(value) != self._env.num_envs:
            raise ConfigurationError(
                f"The observation term {name!r} of group {group!r} returned shape "
                f"{tuple(value.shape)}, but must return ({self._env.num_envs}, k)."
            )
        self._widths[group, name] = value.shape[-1]


class _Whole:
    """Noise, clip and scale of a group's terms as whole matrices, for devices that launch kernels.

    Values are those that the terms get one by one.
    """

    def __init__(
        self,
        parts: Sequence[tuple[ObservationTermCfg, RandomStream | None, int]],
        random: EnvRandom,
    ) -> None:
        columns = [cfg for cfg, _, width in parts for _ in range(width)]
        self._noise = random.joined([(stream, width) for _, stream, width in parts])
        self._bounds: Bounds = tuple(
            (noise.n_min, noise.n_max) if isinstance(noise, UniformNoiseCfg) else (0.0, 0.0)
            for noise in (cfg.noise for cfg in columns)
        )
        clips = [(-math.inf, math.inf) if cfg.clip is None else tuple(cfg.clip) for cfg in columns]
        scales = [1.0 if cfg.scale is None else cfg.scale for cfg in columns]
        has_clip, has_scale = set(clips) != {(-math.inf, math.inf)}, set(scales) != {1.0}
        self._is_noisy = any(stream is not None for _, stream, _ in parts)
        self._clip = torch.tensor(clips, device=random.device).T if has_clip else None
        self._scale = torch.tensor(scales, device=random.device) if has_scale else None

    def finish(self, values: torch.Tensor, is_noisy: bool) -> torch.Tensor:
        """Return the joined terms, ``(num_envs, dim)``, as they are observed; overwrites them."""
        if is_noisy and self._is_noisy:
            values += self._noise.ranges(self._bounds)
        if self._clip is not None:
            values.clamp_(*self._clip)
        if self._scale is not None:
            values *= self._scale
        return values
