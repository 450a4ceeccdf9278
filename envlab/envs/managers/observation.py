"""Observations: groups of terms, each term scaled, clipped and corrupted as configured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from envlab.config import NonNegativeInt, UnitInterval
from envlab.envs.batched_env import Observations
from envlab.envs.managers._observation_memory import (
    Delay,
    DelayCfg,
    EpisodeBias,
    History,
)
from envlab.envs.managers.function_term import FunctionTermCfg, bind
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.modifiers import Mode, ModifierCfg, Stage
from envlab.envs.noise import NoiseCfg, NoiseModelWithAdditiveBiasCfg, UniformNoiseCfg
from envlab.envs.random import Bounds, EnvRandom, RandomStream
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, name_term
from envlab.state import State


@dataclass(kw_only=True)
class ObservationTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns ``(num_envs, k)``.

    Then follow modifiers, noise, clip, scale, delay and history, in this order, which is Isaac
    Lab's and mjlab's.
    """

    modifiers: list[ModifierCfg] | None = None
    """Changes of the values, such as filters; see :class:`ModifierCfg`."""
    noise: NoiseCfg | None = None
    """Noise, where the group's ``enable_corruption`` is true."""
    clip: tuple[float, float] | None = None
    """Bounds."""
    scale: float | tuple[float, ...] | None = None
    """Factor, or one for each column."""
    delay_min_lag: NonNegativeInt = 0
    """Minimum delay, in steps."""
    delay_max_lag: NonNegativeInt = 0
    """Largest delay, in steps; the delay is drawn uniformly from ``delay_min_lag`` to it."""
    delay_per_env: bool = True
    """Whether each environment draws its own delay."""
    delay_hold_prob: UnitInterval = 0.0
    """Probability to keep a delay where another would be drawn."""
    delay_update_period: NonNegativeInt = 0
    """Steps between two draws of the delay; 0: each step."""
    delay_per_env_phase: bool = True
    """Whether environments draw at different steps of the period."""
    history_length: NonNegativeInt = 0
    """Number of values that are observed, the oldest first; 0: only the current one."""
    flatten_history_dim: bool = True
    """Whether they are joined to ``(num_envs, history_length * k)``; else they are
    ``(num_envs, history_length, k)``."""

    def check_values(self, path: str) -> None:
        """Refuse a delay that ends before it begins.

        Raises:
            ConfigurationError: With both lags.
        """
        if self.delay_min_lag > self.delay_max_lag:
            raise ConfigurationError(
                f"{path}.delay_min_lag is {self.delay_min_lag}, above delay_max_lag "
                f"({self.delay_max_lag}). Set the second to at least the first."
            )


@dataclass(kw_only=True)
class ObservationGroupCfg(TermCfg):
    """A group of terms; a task adds one field per term."""

    enable_corruption: bool = False
    """Whether the terms' noise is applied."""
    history_length: NonNegativeInt | None = None
    """That of all terms of the group; null: each term's own."""
    flatten_history_dim: bool = True
    """Whether the histories are joined, if the group has a length."""
    concatenate_terms: bool = True
    """Whether the terms are joined to one tensor; else the group is a dictionary of them."""
    concatenate_dim: int = -1
    """Dimension along which they are joined, not counting that of environments; -1: the last."""


class ObservationManager:
    """Computes each group: its terms in field order, joined or as a dictionary."""

    STATE = State(parts=("stages",))

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._env = env
        self._groups = terms_of(cfg, ObservationGroupCfg)
        self._checked = False
        self._returned: dict[tuple[str, str], torch.Size] = {}
        """Shapes that terms return, all environments' together."""
        self._shapes: dict[tuple[str, str], tuple[int, ...]] = {}
        """Shapes of terms as they are observed, in one environment."""
        self._wholes: dict[str, _Whole] = {}
        self.stages: dict[str, Stage] = {}
        """What terms remember, by ``group.term.kind``."""
        if "policy" not in self._groups:
            raise ConfigurationError("env.observations needs a group called 'policy'.")
        self._terms: dict[str, dict[str, tuple[ObservationTermCfg, Callable[[], torch.Tensor]]]] = {
            group: {
                name: (
                    _with_history(term, group_cfg),
                    bind(term, env, sensors, f"observations.{group}.{name}"),
                )
                for name, term in terms_of(group_cfg, ObservationTermCfg).items()
            }
            for group, group_cfg in self._groups.items()
        }
        self._unfinished: set[tuple[str, str]] = set()
        """Terms whose values are changed before they are observed."""
        self._scales: dict[tuple[str, str], torch.Tensor | float] = {}
        """A factor, or one of each column."""
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

    def shapes(self, group: str = "policy") -> dict[str, tuple[int, ...]]:
        """Return each term's shape in one environment, once observations have been computed."""
        return {name: self._shapes[group, name] for name in self._terms[group]}

    def columns(self, group: str = "policy") -> dict[str, slice]:
        """Return each term's columns in a group, once observations have been computed."""
        end = 0
        return {
            name: slice(end, end := end + shape[-1]) for name, shape in self.shapes(group).items()
        }

    def not_finite(self) -> dict[str, torch.Tensor]:
        """Return where each term is not finite now, bool ``(num_envs,)``, by name if anywhere."""
        found = {
            name: ~function().isfinite().flatten(1).all(1)
            for terms in self._terms.values()
            for name, (_, function) in terms.items()
        }
        return {name: bad for name, bad in found.items() if bad.any()}

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the episodes of ``mask``, which have ended."""
        for stage in self.stages.values():
            stage.reset(mask)

    def compute(self, *, corrupt: bool, mode: Mode = "look") -> Observations:
        """Return all groups, each ``(num_envs, ...)`` or a dictionary of such tensors by term.

        Args:
            corrupt: Whether noise is applied where it is enabled.
            mode: Whether memories move on, or terms only look; see :data:`Mode`.
        """
        observations: Observations = {}
        for group, terms in self._terms.items():
            cfg, values = self._groups[group], {}
            is_noisy = corrupt and cfg.enable_corruption
            whole = self._wholes.get(group)
            for name, (_, function) in terms.items():
                try:
                    value = function()
                except Exception as error:
                    name_term(error, "observation", name)
                    raise
                if not self._checked:
                    self._check(group, name, value)
                elif value.shape != self._returned[group, name]:
                    raise ConfigurationError(
                        f"The observation term {name!r} of group {group!r} returned shape "
                        f"{tuple(value.shape)}, but {tuple(self._returned[group, name])} before. "
                        "Let it return the same shape in each step."
                    )
                if whole is None and (group, name) in self._unfinished:
                    value = self._finish(group, name, value, is_noisy, mode)
                if not self._checked:
                    self._shapes[group, name] = tuple(value.shape[1:])
                values[name] = value
            if not cfg.concatenate_terms:
                # Copies, as terms may return the simulation's own memory.
                observations[group] = {name: value.clone() for name, value in values.items()}
                continue
            joined = self._joined(group, values)
            observations[group] = joined if whole is None else whole.finish(joined, is_noisy)
            if not self._checked and self._env.random.ahead is not None and joined.dim() == 2:
                self._prepare(group)
        self._checked = True
        return observations

    def _joined(self, group: str, values: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the terms of a group as one tensor.

        Raises:
            ConfigurationError: In the first computation, if their shapes do not fit.
        """
        dim = self._groups[group].concatenate_dim
        if not self._checked:
            self._check_joins(group, dim)
        return torch.cat(list(values.values()), dim=dim if dim < 0 else dim + 1)

    def _finish(
        self, group: str, name: str, value: torch.Tensor, is_noisy: bool, mode: Mode
    ) -> torch.Tensor:
        """Return a term's value as its configuration wants it to be observed."""
        cfg, _ = self._terms[group][name]
        stages, where = self.stages, f"{group}.{name}"
        for place, modifier in enumerate(cfg.modifiers or ()):
            stage = stages.get(f"{where}.modifier{place}")
            value = modifier.apply(value) if stage is None else stage.process(value, mode)
        if is_noisy and cfg.noise is not None:
            value = cfg.noise.apply(value, self._streams[group, name])
            if (stage := stages.get(f"{where}.bias")) is not None:
                value = stage.process(value, mode)
        if cfg.clip is not None:
            value = value.clamp(*cfg.clip)
        if cfg.scale is not None:
            value = value * self._scales[group, name]
        for kind in ("delay", "history"):
            if (stage := stages.get(f"{where}.{kind}")) is not None:
                value = stage.process(value, mode)
        return value

    def _prepare(self, group: str) -> None:
        """Let a group be finished as a whole from now on, if its noise can be drawn so."""
        terms = self._terms[group]
        parts = [
            (cfg, self._streams.get((group, name)), self._shapes[group, name][-1])
            for name, (cfg, _) in terms.items()
        ]
        if any(key.startswith(f"{group}.") for key in self.stages) or any(
            cfg.modifiers for cfg, _, _ in parts
        ):
            return
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
        self._returned[group, name] = value.shape
        self._build_stages(group, name, value)

    def _check_joins(self, group: str, dim: int) -> None:
        """Refuse terms whose shapes differ in other dimensions than the one that joins them."""
        shapes = self.shapes(group)
        others = set()
        for shape in shapes.values():
            rest: list[int | None] = list(shape)
            if -len(rest) <= dim < len(rest):
                rest[dim] = None
            others.add(tuple(rest))
        if len(others) > 1 or None not in next(iter(others)):
            told = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            raise ConfigurationError(
                f"The terms of the observation group {group!r} cannot be joined along dimension "
                f"{dim} (concatenate_dim), as their shapes are {told}. Let them differ in that "
                "dimension alone, or set concatenate_terms=false, for a dictionary."
            )

    def _build_stages(self, group: str, name: str, value: torch.Tensor) -> None:
        """Make what a term remembers, for the shape of its values."""
        cfg, where = self._terms[group][name][0], f"{group}.{name}"
        if any(
            (cfg.modifiers, cfg.noise, cfg.clip, cfg.scale, cfg.delay_max_lag, cfg.history_length)
        ):
            self._unfinished.add((group, name))
        if isinstance(cfg.scale, float | int):
            self._scales[group, name] = cfg.scale
        elif cfg.scale is not None:
            if len(cfg.scale) != value.shape[-1]:
                raise ConfigurationError(
                    f"env.observations.{where}.scale has {len(cfg.scale)} factors, but the term "
                    f"has {value.shape[-1]} columns. Give one for each, or a single number."
                )
            self._scales[group, name] = value.new_tensor(cfg.scale)
        for place, modifier in enumerate(cfg.modifiers or ()):
            stage = modifier.build(value)
            if stage is not None:
                self.stages[f"{where}.modifier{place}"] = stage
        if isinstance(cfg.noise, NoiseModelWithAdditiveBiasCfg):
            stream = self._env.random.stream(f"obs.{where}.bias")
            self.stages[f"{where}.bias"] = EpisodeBias(value, cfg.noise, stream)
        if cfg.delay_max_lag:
            delay = DelayCfg(
                **{
                    one.name: getattr(cfg, f"delay_{one.name}")
                    for one in dataclasses.fields(DelayCfg)
                }
            )
            self.stages[f"{where}.delay"] = Delay(value, delay, self._env, f"obs.{where}")
        if cfg.history_length:
            is_flat = cfg.flatten_history_dim
            self.stages[f"{where}.history"] = History(value, cfg.history_length, is_flat=is_flat)


def _with_history(term: ObservationTermCfg, group: ObservationGroupCfg) -> ObservationTermCfg:
    """Return a term with its group's history, if that has one."""
    if group.history_length is None:
        return term
    return dataclasses.replace(
        term, history_length=group.history_length, flatten_history_dim=group.flatten_history_dim
    )


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
        scales = [one for cfg, _, width in parts for one in factors(cfg.scale, width)]
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


def factors(scale: float | Sequence[float] | None, width: int) -> list[float]:
    """Return the factor of each column."""
    if isinstance(scale, Sequence):
        return [float(one) for one in scale]
    return [1.0 if scale is None else scale] * width
