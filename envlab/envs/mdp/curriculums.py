"""Curriculum terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


def modify_reward_weight(
    env: ManagerEnv, mask: torch.Tensor, term_name: str, weight: float, num_steps: int
) -> float:
    """Set the weight of a reward term once the environment has made ``num_steps`` steps."""
    if env.common_step_counter > num_steps:
        env.reward_manager.set_weight(term_name, weight)
    return env.reward_manager.get_weight(term_name)
