"""Losses, with a common protocol, and PPO's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch

from envlab_navigation.ddppo.storage import Batch, Output

Measured = Mapping[str, "float | torch.Tensor"]
"""Means over the samples, by name: numbers, or 0-d tensors, which don't wait for a GPU."""


class Loss(Protocol):
    """A term of the objective.

    A loss with parameters is an ``nn.Module``; a loss that needs an expert has a true attribute
    ``needs_expert``.
    """

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        """Return the mean over this rank's samples, and measures to log.

        Weights of several losses, and of ranks with unequal batches, are left to the trainer.

        Args:
            step: Steps of all ranks' environments in the current stage so far, as in AllenAct.
            batch: The collected samples.
            output: The model's current output for them.
        """


class PPO:
    """Proximal policy optimisation with a clipped objective, a value loss and an entropy bonus.

    Schulman et al. 2017, equations 7 and 9; the default coefficients are AllenAct's.
    """

    def __init__(
        self,
        clip_param: float = 0.1,
        value_loss_coef: float = 0.5,
        entropy_coef: float = 0.01,
        use_clipped_value_loss: bool = True,
        clip_decay: Callable[[int], float] | None = None,
    ) -> None:
        """Keep the settings.

        Args:
            clip_param: Distance from 1 beyond which the ratio of probabilities is clipped.
            value_loss_coef: Weight of the value loss.
            entropy_coef: Weight of the entropy.
            use_clipped_value_loss: Whether values are kept within ``clip_param`` of the old ones.
            clip_decay: Factor of ``clip_param`` by the step; None: 1.
        """
        self.value = PPOValue(clip_param, use_clipped_value_loss, clip_decay)
        self._clip_param, self._clip_decay = clip_param, clip_decay
        self._value_loss_coef, self._entropy_coef = value_loss_coef, entropy_coef

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        clip = self._clip_param * (self._clip_decay(step) if self._clip_decay else 1.0)
        log_ratio = output.distribution.log_prob(batch.actions) - batch.log_probs
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
        surrogate = -torch.minimum(ratio * batch.advantages, clipped * batch.advantages).mean()
        entropy = output.distribution.entropy().mean()
        value_loss, _ = self.value.loss(step, batch, output)
        total = surrogate + self._value_loss_coef * value_loss - self._entropy_coef * entropy
        with torch.no_grad():
            measured = {
                "surrogate": surrogate.detach(),
                "value": value_loss.detach(),
                "entropy": entropy.detach(),
                "approx_kl": (ratio - 1.0 - log_ratio).mean(),  # Schulman's third estimator
                "clip_fraction": ((ratio - 1.0).abs() > clip).float().mean(),
            }
        return total, measured


class PPOValue:
    """PPO's value loss alone: half the larger squared error of clipped and unclipped values."""

    def __init__(
        self,
        clip_param: float = 0.1,
        use_clipped_value_loss: bool = True,
        clip_decay: Callable[[int], float] | None = None,
    ) -> None:
        """Keep the settings; see :class:`PPO`."""
        self._clip_param, self._is_clipped = clip_param, use_clipped_value_loss
        self._clip_decay = clip_decay

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        errors = (output.values - batch.returns).square()
        if self._is_clipped:
            clip = self._clip_param * (self._clip_decay(step) if self._clip_decay else 1.0)
            near = batch.values + (output.values - batch.values).clamp(-clip, clip)
            errors = torch.maximum(errors, (near - batch.returns).square())
        loss = 0.5 * errors.mean()
        return loss, {"value": loss.detach()}
