"""Noise of DDPG and TD3 as in their papers: a share of the range of the actions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

Sample = Callable[[Any], torch.Tensor]
"""A noise's method: values of a shape ``(batch, num_actions)``."""


def scale_noise(agent: Any, scale: torch.Tensor) -> None:
    """Scale an agent's noises, and the clip of the smoothing noise, by half the range of actions.

    skrl adds them to the actions unscaled. Its clip of 0.5 is then more than Humanoid's range,
    ±0.4, and a twentieth of a range of ±10; Fujimoto et al. (2018), CleanRL and Stable-Baselines3
    scale all three with the actions' bounds.

    Args:
        agent: skrl's agent; one without noises is not changed.
        scale: Half the width of the actions' bounds, ``(num_actions,)``.
    """
    if (exploration := getattr(agent, "_exploration_noise", None)) is not None:
        exploration.sample = functools.partial(_scaled, exploration.sample, scale, float("inf"))
    if (smoothing := getattr(agent, "_smooth_regularization_noise", None)) is not None:
        clip = float(agent.cfg.smooth_regularization_clip)
        smoothing.sample = functools.partial(_scaled, smoothing.sample, scale, clip)
        agent.cfg.smooth_regularization_clip = float("inf")  # clipped before scaling


def _scaled(sample: Sample, scale: torch.Tensor, clip: float, size: Any) -> torch.Tensor:
    return sample(size).clamp(-clip, clip) * scale
