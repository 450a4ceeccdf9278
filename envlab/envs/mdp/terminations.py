"""Termination terms; each returns bool ``(num_envs,)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.masks import clear
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv


_ROBOT: Any = SceneEntityCfg("robot")


def time_out(env: ManagerEnv) -> torch.Tensor:
    """Return whether the episode has lasted ``episode_length_s``."""
    return env.episode_length_buf >= env.max_episode_length


def joint_pos_out_of_manual_limit(
    env: ManagerEnv, bounds: tuple[float, float], asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return whether any of the joints is outside ``bounds``, in m or rad."""
    positions = env.sim.data.qpos[:, asset_cfg.qpos_ids]
    is_out = positions.clamp(*bounds) != positions
    return is_out.squeeze(1) if is_out.shape[1] == 1 else is_out.any(dim=1)


def root_height_below_minimum(
    env: ManagerEnv, minimum_height: float, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether the root is lower in the world than ``minimum_height``, in m."""
    return env.sim.data.qpos[:, asset_cfg.root_pos][:, 2] < minimum_height


def nan_detection(env: ManagerEnv) -> torch.Tensor:
    """Return whether a field of the physics that the task reads is not finite.

    The NaN guard ends such episodes in every task, and gives them no reward.
    """
    fields = [values.flatten(1) for _, values in env.sim.data.items()]
    return torch.stack([~values.isfinite().all(dim=1) for values in fields]).any(dim=0)


class command_resample(ManagerTermBase):
    """Return whether the command, drawn again ``num_resamples`` times, is due in this step.

    The draw at the start of the episode does not count.
    """

    STATE = State(per_env=("num_draws", "time_left"))

    def __init__(self, cfg: FunctionTermCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self.num_draws = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        """Draws in this episode since its start."""
        self.time_left = torch.full((env.num_envs,), torch.inf, device=env.device)
        """The command's time left in the step before, in s; infinite in an episode's first."""

    def __call__(self, env: ManagerEnv, command_name: str, num_resamples: int = 1) -> torch.Tensor:
        now, dt = env.command_manager.get_term(command_name).time_left, env.step_dt
        # Without a draw it is one step less than before.
        self.num_draws += now > self.time_left - 0.5 * dt
        self.time_left.copy_(now)
        return (now < 1.5 * dt) & (self.num_draws == num_resamples)

    def reset(self, mask: torch.Tensor) -> None:
        clear(self.num_draws, mask)
        self.time_left.masked_fill_(mask, torch.inf)
