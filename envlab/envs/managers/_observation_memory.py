"""The memory of observations: delay, history, and a bias for each episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from envlab.config import NonNegativeInt, UnitInterval
from envlab.envs.masks import assign
from envlab.envs.modifiers import Mode, Stage
from envlab.envs.noise import NoiseModelWithAdditiveBiasCfg
from envlab.envs.random import RandomStream
from envlab.envs.vector_env import VectorEnv
from envlab.state import State


class History(Stage):
    """The last ``length`` values, the oldest first; before an episode's first, that one.

    Isaac Lab 2.3.2's and mjlab 1.6.0's ``CircularBuffer``.
    """

    STATE = State(per_env=("_rows",))

    def __init__(self, values: torch.Tensor, length: int, *, is_flat: bool) -> None:
        """Remember nothing yet.

        Args:
            values: The term's, ``(num_envs, k)``.
            length: Number of values.
            is_flat: Whether they are joined to ``(num_envs, length * k)``; else
                ``(num_envs, length, k)``.
        """
        super().__init__(len(values), values.device)
        self._rows = values.new_zeros(len(values), length, *values.shape[1:])
        self._is_flat = is_flat

    def memory(self) -> list[torch.Tensor]:
        return [self._rows]

    def following(self, values: torch.Tensor, *, moves_on: bool) -> list[torch.Tensor]:
        newest = values.unsqueeze(1)
        later = torch.cat((self._rows[:, 1:], newest), dim=1)
        return [self._or_first(newest.expand_as(later), later)]

    def observed(self, memory: Sequence[torch.Tensor]) -> torch.Tensor:
        # A copy: whoever observes keeps it.
        return memory[0].flatten(1).clone() if self._is_flat else memory[0].clone()


@dataclass(frozen=True, kw_only=True)
class DelayCfg:
    """How late a term is observed, in steps; mjlab 1.6.0's ``DelayBuffer``."""

    min_lag: NonNegativeInt = 0
    """Minimum delay."""
    max_lag: NonNegativeInt = 0
    """Largest delay; drawn uniformly from ``min_lag`` to it."""
    per_env: bool = True
    """Whether each environment draws its own."""
    hold_prob: UnitInterval = 0.0
    """Probability to keep the delay where it would be drawn."""
    update_period: NonNegativeInt = 0
    """Steps between two draws; 0: each step."""
    per_env_phase: bool = True
    """Whether environments draw at different steps of the period."""


class Delay(Stage):
    """The value some steps ago; in the first steps of an episode, its first."""

    STATE = State(per_env=("_rows", "_lag", "_age", "_phase"))

    def __init__(self, values: torch.Tensor, cfg: DelayCfg, env: VectorEnv, name: str) -> None:
        super().__init__(len(values), values.device)
        self._cfg = cfg
        self._rows = values.new_zeros(len(values), cfg.max_lag + 1, *values.shape[1:])
        self._lag = torch.zeros(len(values), dtype=torch.int64, device=values.device)
        self._age, self._phase = torch.zeros_like(self._lag), torch.zeros_like(self._lag)
        self._lags = env.random.stream(f"{name}.lag", shared=not cfg.per_env)
        self._holds = env.random.stream(f"{name}.hold", shared=not cfg.per_env)
        self._phases = env.random.stream(f"{name}.phase")

    def memory(self) -> list[torch.Tensor]:
        return [self._rows, self._lag, self._age]

    def reset(self, mask: torch.Tensor) -> None:
        super().reset(mask)
        if self._cfg.update_period and self._cfg.per_env_phase:
            assign(self._phase, mask, self._phases.integers(0, self._cfg.update_period))

    def following(self, values: torch.Tensor, *, moves_on: bool) -> list[torch.Tensor]:
        cfg, newest = self._cfg, values.unsqueeze(1)
        later = torch.cat((self._rows[:, 1:], newest), dim=1)
        rows = self._or_first(newest.expand_as(later), later)
        lag, age = self._lag, self._age
        if moves_on:
            lag, age = self._lags.integers(cfg.min_lag, cfg.max_lag + 1), age + 1
            if cfg.hold_prob:
                holds = self._holds.uniform(0.0, 1.0, 1)[:, 0] < cfg.hold_prob
                lag = torch.where(holds, self._lag, lag)
            if cfg.update_period:
                is_due = (self._age + self._phase) % cfg.update_period == 0
                lag = torch.where(is_due, lag, self._lag)
        zero = torch.zeros_like(lag)
        return [rows, self._or_first(zero, lag), self._or_first(zero, age)]

    def observed(self, memory: Sequence[torch.Tensor]) -> torch.Tensor:
        rows, lag, _ = memory
        place = (self._cfg.max_lag - lag).view(-1, *[1] * (rows.dim() - 1))
        return rows.gather(1, place.expand(-1, 1, *rows.shape[2:])).squeeze(1)


class EpisodeBias(Stage):
    """Values plus a bias that is drawn when an episode begins, one for each number."""

    STATE = State(per_env=("_bias",))

    def __init__(
        self, values: torch.Tensor, cfg: NoiseModelWithAdditiveBiasCfg, stream: RandomStream
    ) -> None:
        super().__init__(len(values), values.device)
        self._cfg, self._stream = cfg, stream
        self._bias = torch.zeros_like(values)

    def memory(self) -> list[torch.Tensor]:
        return []

    def reset(self, mask: torch.Tensor) -> None:
        super().reset(mask)
        drawn = self._cfg.bias_noise_cfg.apply(torch.zeros_like(self._bias), self._stream)
        assign(self._bias, mask, drawn)

    def following(self, values: torch.Tensor, *, moves_on: bool) -> list[torch.Tensor]:
        return []

    def process(self, values: torch.Tensor, mode: Mode) -> torch.Tensor:
        return values + self._bias
