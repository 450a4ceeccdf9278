"""A policy by hand for Reach, which goes straight to the commanded pose."""

from __future__ import annotations

import torch

from envlab.envs import ManagerEnv
from envlab.envs.math import combine_frame_transforms
from envlab_tasks.manipulation import franka


class ReachingHand:
    """Moves the hand straight to the pose, by :class:`franka.Hand`."""

    def __init__(self, env: ManagerEnv) -> None:
        self._hand, self._commands = franka.Hand(env), env.command_manager

    def act(self) -> torch.Tensor:
        """Return actions, ``(num_envs, num_actions)``."""
        command = self._commands.get_command("ee_pose")  # of the body
        goal = combine_frame_transforms(command[:, :3], command[:, 3:], *self._hand.offset)
        return self._hand.towards(*goal)
