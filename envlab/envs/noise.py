"""Noise models for observations and actions, drawn from the environments' own streams."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from envlab.config import NonNegativeFloat
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError


@dataclass(kw_only=True)
class NoiseCfg:
    """Noise combined with a value, elementwise."""

    operation: Literal["add", "scale", "abs"] = "add"
    """``add`` to the value, ``scale`` it (multiply), or replace it (``abs``)."""

    def sample(self, stream: RandomStream, num: int) -> torch.Tensor | float:
        """Return noise, ``(num_envs, num)``."""
        raise NotImplementedError

    def apply(self, values: torch.Tensor, stream: RandomStream) -> torch.Tensor:
        """Return ``values``, ``(num_envs, ...)``, with noise."""
        noise = self.sample(stream, math.prod(values.shape[1:]))
        if isinstance(noise, torch.Tensor):
            noise = noise.view(values.shape)
        if self.operation == "add":
            return values + noise
        if self.operation == "scale":
            return values * noise
        return torch.zeros_like(values) + noise


@dataclass(kw_only=True)
class UniformNoiseCfg(NoiseCfg):
    """Uniform noise from ``[n_min, n_max)``."""

    n_min: float = -1.0
    n_max: float = 1.0

    def apply(self, values: torch.Tensor, stream: RandomStream) -> torch.Tensor:
        if self.operation != "add" or values.dim() != 2:
            return super().apply(values, stream)
        return values + stream.ranges(((self.n_min, self.n_max),) * values.shape[1])

    def sample(self, stream: RandomStream, num: int) -> torch.Tensor:
        return stream.ranges(((self.n_min, self.n_max),) * num)


@dataclass(kw_only=True)
class GaussianNoiseCfg(NoiseCfg):
    """Normal noise."""

    mean: float = 0.0
    std: NonNegativeFloat = 1.0

    def sample(self, stream: RandomStream, num: int) -> torch.Tensor:
        return stream.normal(self.mean, self.std, num)


@dataclass(kw_only=True)
class ConstantNoiseCfg(NoiseCfg):
    """The same bias everywhere."""

    bias: float = 0.0

    def sample(self, stream: RandomStream, num: int) -> float:
        return self.bias


@dataclass(kw_only=True)
class NoiseModelWithAdditiveBiasCfg(NoiseCfg):
    """Noise in every step, and a bias for each episode: for direct tasks only.

    :class:`envlab.envs.DirectEnv` draws the bias when an episode begins, one value per component.
    """

    noise_cfg: NoiseCfg
    """Noise of each step."""
    bias_noise_cfg: NoiseCfg
    """Distribution of the bias."""

    def apply(self, values: torch.Tensor, stream: RandomStream) -> torch.Tensor:
        return self.noise_cfg.apply(values, stream)


def refuse_bias(noise: NoiseCfg | None, path: str) -> None:
    """Refuse a bias of each episode where none is drawn.

    Raises:
        ConfigurationError: Naming the path.
    """
    if isinstance(noise, NoiseModelWithAdditiveBiasCfg):
        raise ConfigurationError(
            f"{path} has a bias for each episode, which only direct tasks of one agent draw. Use "
            "noise without it, such as GaussianNoiseCfg."
        )
