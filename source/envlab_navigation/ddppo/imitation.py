"""Learning from an expert's actions, and from advantages without PPO's trust region."""

from __future__ import annotations

import torch

from envlab_navigation.ddppo.losses import Measured
from envlab_navigation.ddppo.storage import Batch, Output


class Imitation:
    """Cross entropy to the expert's actions, in the visited states.

    With a stage's ``teacher_forcing`` at 1 the expert acts, and this is behaviour cloning; with a
    decaying share it is DAgger (Ross et al., "A Reduction of Imitation Learning and Structured
    Prediction to No-Regret Online Learning", 2011, algorithm 3.1); without, the agent alone acts.
    """

    needs_expert = True

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        expert = batch.expert_actions
        assert expert is not None
        # An expert without advice returns -1 for a choice, NaN for a number.
        known = (expert >= 0 if not expert.is_floating_point() else expert.isfinite()).all(dim=-1)
        advice = torch.where(known.unsqueeze(-1), expert, torch.zeros_like(expert))
        log_probs = output.distribution.log_prob(advice)
        loss = -(log_probs * known).sum() / known.sum().clamp(min=1)
        with torch.no_grad():
            agreement = ((batch.actions == expert).all(dim=-1) & known).sum() / known.sum().clamp(1)
        return loss, {"cross_entropy": loss.detach(), "expert_agreement": agreement}


class A2C:
    """Advantage actor-critic, as AllenAct's: advantages are not normalised.

    Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning" (2016), collected
    synchronously.
    """

    def __init__(self, value_loss_coef: float = 0.5, entropy_coef: float = 0.01) -> None:
        """Keep the weights of the value loss and of the entropy."""
        self._value_loss_coef, self._entropy_coef = value_loss_coef, entropy_coef

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        log_probs = output.distribution.log_prob(batch.actions)
        action = -(batch.raw_advantages * log_probs).mean()
        value = 0.5 * (output.values - batch.returns).square().mean()
        entropy = output.distribution.entropy().mean()
        total = action + self._value_loss_coef * value - self._entropy_coef * entropy
        measured = {
            "action": action.detach(),
            "value": value.detach(),
            "entropy": entropy.detach(),
        }
        return total, measured
