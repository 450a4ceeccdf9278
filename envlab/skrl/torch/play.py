"""Playing policies that skrl trained on PyTorch, which needs nothing special."""

from __future__ import annotations

from envlab.skrl.play import SkrlPlayer
from envlab.skrl.torch.learner import TorchLearner


def make_player(learner: TorchLearner) -> SkrlPlayer:
    """Return the player of a learner that has loaded a checkpoint."""
    return SkrlPlayer(learner)
