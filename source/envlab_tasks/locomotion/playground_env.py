"""Environment features of MuJoCo Playground's tasks that Isaac Lab's managers lack."""

from __future__ import annotations

import torch

from envlab.envs import ManagerEnv


class PlaygroundEnv(ManagerEnv):
    """An environment whose rewards are never negative, and which keeps three actions.

    Attributes:
        older_action: The action before ``action_manager.prev_action``, ``(num_envs, num_actions)``.
    """

    older_action: torch.Tensor

    def _setup(self) -> None:
        super()._setup()
        self.older_action = torch.zeros_like(self.action_manager.prev_action)

    def _apply_actions(self, actions: torch.Tensor) -> None:
        self.older_action.copy_(self.action_manager.prev_action)  # zero after a reset, like that
        super()._apply_actions(actions)

    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards().clamp(min=0.0)
