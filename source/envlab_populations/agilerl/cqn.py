"""Conservative Q-learning, which AgileRL's programs train from data sets."""

from __future__ import annotations

import torch

from envlab_populations.evolution.dqn import DQN


class CQN(DQN):
    """Conservative Q-learning from a data set (Kumar et al. 2020, equation 4) over DQN.

    As in AgileRL, the mean over all actions replaces the data's own policy, and half of the loss
    of the temporal differences is added.
    """

    def loss_of(
        self, values: torch.Tensor, actions: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        conservative = values.logsumexp(1).mean() - values.mean()
        return conservative + 0.5 * super().loss_of(values, actions, targets)


class DoubleCQN(CQN):
    """The same, with the next actions chosen by the learning network."""

    is_double = True
