"""What FastSAC cannot train, refused before anything is built; and how far actions go."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab.fast_sac.cfg import FastSacCfg


def check_supported(cfg: FastSacCfg, env: BatchedEnv) -> None:
    """Refuse environments that this configuration cannot train on.

    Raises:
        ConfigurationError: Naming what stands in the way, and what to do.
    """
    if not isinstance(env.single_action_space, spaces.Box):
        raise ConfigurationError(
            f"The task's actions are choices ({env.single_action_space}), but fast_sac knows real "
            "numbers only. Train it with rl_games, or with skrl's ppo or dqn."
        )
    for group in ("policy", "critic"):
        if group in env.obs_buf and env.obs_buf[group].dim() != 2:
            shape = list(env.obs_buf[group].shape[1:])
            raise ConfigurationError(
                f"The task's observations {group!r} are of {shape}, but fast_sac sees vectors "
                "only. Train it with rsl_rl or skrl."
            )


def action_range(env: BatchedEnv, cfg: FastSacCfg) -> tuple[torch.Tensor, torch.Tensor]:
    """Return half the width and the middle of the actions' range, ``(num_actions,)`` each.

    It is the task's own, or from ``-agent.action_limit`` to ``agent.action_limit`` where that has
    no bounds.
    """
    space = env.single_action_space
    assert isinstance(space, spaces.Box)
    is_bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low = np.where(is_bounded, space.low, -cfg.action_limit)
    high = np.where(is_bounded, space.high, cfg.action_limit)
    half_width, middle = (high - low) / 2.0, (high + low) / 2.0
    device = env.context.device
    return (
        torch.as_tensor(half_width, dtype=torch.float32, device=device).flatten(),
        torch.as_tensor(middle, dtype=torch.float32, device=device).flatten(),
    )
