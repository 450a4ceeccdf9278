"""A policy by hand for Open-Drawer."""

from __future__ import annotations

import torch

from envlab.envs import ManagerEnv
from envlab_tasks.manipulation import franka
from envlab_tasks.manipulation.drawer import PullingHand


class DrawerHand:
    """Pulls the drawer out and holds it."""

    def __init__(self, env: ManagerEnv) -> None:
        self._hand = PullingHand(env, franka.Hand(env))

    def act(self) -> torch.Tensor:
        """Return actions, ``(num_envs, 8)``."""
        arm, closes = self._hand.decide()
        return torch.cat((arm, torch.where(closes, -1.0, 1.0).unsqueeze(1)), dim=1)
