"""Auxiliary tasks, which teach the encoder and the memory more than the reward does.

Ye et al., "Auxiliary Tasks Speed Up Learning Point Goal Navigation" (2020), use both. A loss here
has its own parameters, which :meth:`prepare` makes once the sizes are known.
"""

from __future__ import annotations

import abc

import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from envlab_navigation.ddppo.losses import Measured
from envlab_navigation.ddppo.storage import Batch, Output


class AuxiliaryLoss(nn.Module, abc.ABC):
    """A loss with its own parameters."""

    def prepare(self, num_features: int, hidden_dim: int, action_space: spaces.Space) -> None:
        """Make the parameters.

        Args:
            num_features: Size of ``Output.features``.
            hidden_dim: Size of ``Output.beliefs``.
            action_space: The space of one environment.
        """
        self._choices = _choices(action_space)
        self._num_inputs = sum(self._choices) or int(action_space.shape[0])  # type: ignore[index]
        self._build(num_features, hidden_dim)

    @abc.abstractmethod
    def _build(self, num_features: int, hidden_dim: int) -> None:
        """Make the parameters, for actions of ``_num_inputs`` numbers."""

    @abc.abstractmethod
    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        """Return the value to minimise; see :class:`envlab_navigation.ddppo.losses.Loss`."""

    def _encoded(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions as ``(..., _num_inputs)``: choices as 1 among 0s, numbers unchanged."""
        if not self._choices:
            return actions
        parts = zip(self._choices, actions.unbind(dim=-1), strict=True)
        return torch.cat([functional.one_hot(part, num) for num, part in parts], dim=-1).float()


class InverseDynamics(AuxiliaryLoss):
    """Predict the action from the features before and after it.

    Pathak et al., "Curiosity-driven Exploration by Self-supervised Prediction" (2017), equations 2
    and 3: cross entropy for choices, squared error for numbers.
    """

    def __init__(self, hidden_dim: int = 256) -> None:
        """Keep the width of the layer between features and action."""
        super().__init__()
        self._hidden_dim = hidden_dim

    def _build(self, num_features: int, hidden_dim: int) -> None:
        self.net = nn.Sequential(
            nn.Linear(2 * num_features, self._hidden_dim),
            nn.ReLU(),
            nn.Linear(self._hidden_dim, self._num_inputs),
        )

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        before, after = output.features[:-1], output.features[1:]
        guess, actions = self.net(torch.cat((before, after), dim=-1)), batch.actions[:-1]
        within = (~batch.starts[1:]).float()  # an episode that ended shows no next observation
        if self._choices:
            guesses = guess.split(self._choices, dim=-1)
            parts = zip(guesses, actions.unbind(dim=-1), strict=True)
            losses = [
                functional.cross_entropy(one.flatten(0, 1), of.flatten(), reduction="none")
                for one, of in parts
            ]
            errors = torch.stack(losses).sum(dim=0).view_as(within)
        else:
            errors = (guess - actions).square().sum(dim=-1)
        loss = (errors * within).sum() / within.sum().clamp(min=1)
        return loss, {"inverse_dynamics": loss.detach()}


class CpcA(AuxiliaryLoss):
    """Action-conditional contrastive prediction of future features.

    Guo et al., "Neural Predictive Belief Representations" (2018), section 3.2: from the memory at a
    step, a second recurrent network follows the actions that were taken; a classifier distinguishes
    the features at the step that it has reached from those of another step of the batch.
    """

    def __init__(self, planning_steps: int = 8, subsample_rate: float = 0.2) -> None:
        """Keep the settings.

        Args:
            planning_steps: Steps ahead that are predicted.
            subsample_rate: Share of all steps that predictions start from.
        """
        super().__init__()
        self._planning_steps, self._subsample_rate = planning_steps, subsample_rate

    def _build(self, num_features: int, hidden_dim: int) -> None:
        self.forward_model = nn.GRUCell(self._num_inputs, hidden_dim)
        self.classifier = nn.Sequential(
            nn.Linear(hidden_dim + num_features, 32), nn.ReLU(), nn.Linear(32, 1)
        )

    def loss(self, step: int, batch: Batch, output: Output) -> tuple[torch.Tensor, Measured]:
        num_steps, num_envs = batch.starts.shape
        reach = min(self._planning_steps, num_steps - 1)
        if reach < 1:
            nothing = sum(parameter.sum() * 0.0 for parameter in self.parameters())
            return torch.as_tensor(nothing), {"cpc_a": torch.zeros(())}
        device = output.beliefs.device
        # Where predictions start; each ends with the rollout or the episode.
        num_starts = max(1, round(self._subsample_rate * (num_steps - 1) * num_envs))
        begin = torch.randint(num_steps - 1, (num_starts,)).to(device)
        env = torch.randint(num_envs, (num_starts,)).to(device)
        actions = self._encoded(batch.actions)
        features = output.features.flatten(0, 1)
        belief = output.beliefs[begin, env]
        going_on = torch.ones(num_starts, dtype=torch.bool, device=device)
        total, count = output.beliefs.new_zeros(()), torch.zeros((), device=device)
        for ahead in range(1, reach + 1):
            at = begin + ahead
            going_on = going_on & (at < num_steps)
            at = at.clamp(max=num_steps - 1)
            going_on = going_on & ~batch.starts[at, env]
            belief = self.forward_model(actions[at - 1, env].to(belief.dtype), belief)
            others = torch.randint(len(features), (num_starts,)).to(device)
            for seen, is_true in ((output.features[at, env], 1.0), (features[others], 0.0)):
                logits = self.classifier(torch.cat((belief, seen), dim=-1))[:, 0].float()
                errors = functional.binary_cross_entropy_with_logits(
                    logits, torch.full_like(logits, is_true), reduction="none"
                )
                total = total + (errors * going_on).sum()
                count = count + going_on.sum()
        loss = total / count.clamp(min=1)
        return loss, {"cpc_a": loss.detach()}


def _choices(space: spaces.Space) -> list[int]:
    """Return the number of options of each choice; empty for real-valued actions."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(num) for num in space.nvec]
    return []
