"""The networks' losses for one batch, and gradient steps as graphs.

One graph is for steps of the critics alone, and one for those of the policy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from envlab.fast_sac.networks import Critics
from envlab.fast_sac.replay import Batch
from envlab.sim.recording import NewGraphs, cuda_graphs, recording_of_updates


def target_values(
    critics: Critics,
    rewards: torch.Tensor,
    discounts: torch.Tensor,
    obs: torch.Tensor,
    actions: torch.Tensor,
    *,
    is_least: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the critics' targets for a batch, and the returns that they encode.

    The target of the critic with the smaller value is that of both (SAC, TD3). Otherwise each
    critic follows its own target critic, and only the policy sees their mean: holosoma 0.0.3,
    FastSAC's code (``fast_sac_agent.py``, ``_update_main``). One mixture for both would be wider
    than either.

    Args:
        critics: The target critics.
        rewards: Including the value of entropy, ``(batch,)``.
        discounts: Factors of the next states' values, ``(batch,)``.
        obs: Next observations of the critics, ``(batch, size)``.
        actions: The policy's actions in these states, ``(batch, num_actions)``.
        is_least: Whether both follow the critic with the smaller value.

    Returns:
        Returns, or the weights of C51's atoms in a further dimension; and returns, which may lie
        beyond the atoms. Each is ``(batch,)`` for both critics, or ``(2, batch)`` for each.
    """
    judged = critics.judge(obs, actions)
    values = critics.values(judged)
    returns = rewards + discounts * (values.amin(dim=0) if is_least else values)
    if judged.shape[2] == 1:
        return returns, returns
    weights = judged.softmax(dim=2)
    if is_least:
        first_is_less = (values[0] <= values[1]).unsqueeze(1)
        weights = torch.where(first_is_less, weights[0], weights[1])
    return project(weights, rewards, discounts, critics.atoms), returns


def project(
    weights: torch.Tensor, rewards: torch.Tensor, discounts: torch.Tensor, atoms: torch.Tensor
) -> torch.Tensor:
    """Return the distribution of ``reward + discount * return`` on the same atoms.

    Bellemare et al., "A Distributional Perspective on Reinforcement Learning" (2017), algorithm 1.

    Args:
        weights: Weights of the returns, ``(batch, num_atoms)``, or ``(2, batch, num_atoms)``.
        rewards: ``(batch,)``.
        discounts: ``(batch,)``.
        atoms: Returns at equal distances, ascending, ``(num_atoms,)``.
    """
    moved = rewards.unsqueeze(1) + discounts.unsqueeze(1) * atoms
    place = (moved.clamp(atoms[0], atoms[-1]) - atoms[0]) / (atoms[1] - atoms[0])
    below = place.floor().clamp(max=len(atoms) - 2)
    share = place - below
    below = below.long()
    below, share = below.expand_as(weights), share.expand_as(weights)
    projected = torch.zeros_like(weights)
    projected.scatter_add_(-1, below, weights * (1.0 - share))
    return projected.scatter_add_(-1, below + 1, weights * share)


def critic_loss(judged: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the critics' losses, summed over both: cross entropy, or half the squared error.

    Args:
        judged: ``(2, batch, num_atoms or 1)``.
        target: The first result of :func:`target_values`.
    """
    if judged.shape[2] == 1:
        return 0.5 * (judged.squeeze(2) - target).square().mean(dim=1).sum()
    return -(target * judged.log_softmax(dim=2)).sum(dim=2).mean(dim=1).sum()


def policy_loss(
    critics: Critics,
    obs: torch.Tensor,
    actions: torch.Tensor,
    log_probs: torch.Tensor,
    temperature: torch.Tensor,
    *,
    is_least: bool,
) -> torch.Tensor:
    """Return the policy's loss: the cost of its entropy, minus its value.

    Args:
        critics: The critics, which do not learn from it.
        obs: Observations of the critics, ``(batch, size)``.
        actions: Actions drawn in these states, ``(batch, num_actions)``, with gradients.
        log_probs: Their log densities, ``(batch,)``, with gradients.
        temperature: 0-d.
        is_least: Whether the smaller value counts, otherwise the mean.
    """
    values = critics.values(critics.judge(obs, actions))
    value = values.amin(dim=0) if is_least else values.mean(dim=0)
    return (temperature * log_probs - value).mean()


def temperature_loss(
    log_temperature: torch.Tensor, log_probs: torch.Tensor, target_entropy: float
) -> torch.Tensor:
    """Return a loss that raises the temperature where the entropy is below its target."""
    return -(log_temperature.exp() * (log_probs.mean() + target_entropy))


GradientStep = Callable[[Batch, bool], torch.Tensor]
"""Takes a step with a batch, with the policy or without, and returns losses, ``(num_losses,)``."""


class RecordedSteps:
    """Takes gradient steps with batches of one size."""

    def __init__(
        self,
        step: GradientStep,
        optimizers: Sequence[torch.optim.Optimizer],
        new_graphs: NewGraphs = cuda_graphs,
        *,
        is_required: bool = False,
    ) -> None:
        """Record each kind of step from its first ones on.

        Args:
            step: See :data:`GradientStep`; it reads nothing on the host.
            optimizers: Of the networks that it changes.
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether a step that cannot be recorded is an error.
        """
        self._step, self._optimizers = step, optimizers
        self._batch: Batch | None = None
        self._rates: list[float] = []
        self.recordings = {
            with_policy: recording_of_updates(
                functools.partial(self._run, with_policy), new_graphs, is_required=is_required
            )
            for with_policy in (False, True)
        }
        self.forget()

    def forget(self) -> None:
        """Record again: optimizers have other memory, such as a checkpoint's."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["capturable"] = True
        for recording in self.recordings.values():
            recording.forget()

    def __call__(self, batch: Batch, with_policy: bool) -> torch.Tensor:
        """Take a step; see :data:`GradientStep`."""
        rates = [group["lr"] for one in self._optimizers for group in one.param_groups]
        if rates != self._rates:
            self._rates = rates
            self.forget()
        if self._batch is None:
            self._batch = Batch(*(values.clone() for values in batch))
        else:
            torch._foreach_copy_(list(self._batch), list(batch))
        losses: torch.Tensor = self.recordings[with_policy].run()
        return losses

    def _run(self, with_policy: bool) -> torch.Tensor:
        assert self._batch is not None
        return self._step(self._batch, with_policy)
