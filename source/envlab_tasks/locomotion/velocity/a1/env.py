"""What legged_gym does that Isaac Lab's manager-based environments do not."""

from __future__ import annotations

import torch

from envlab.envs import ManagerEnv, mdp


class LeggedGymEnv(ManagerEnv):
    """An environment whose rewards are never negative, so that no robot learns to fall early."""

    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards().clamp(min=0.0)


def scaled_commands(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the command, ``(num_envs, 3)``, in legged_gym's scales."""
    command = mdp.generated_commands(env, command_name)
    return torch.cat((2.0 * command[:, :2], 0.25 * command[:, 2:]), dim=1)
