"""Terms over generated ground: a curriculum over its levels, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


def terrain_levels_vel(
    env: ManagerEnv,
    mask: torch.Tensor,
    command_name: str = "base_velocity",
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Move robots that walked far to harder ground, and those that walked too little to easier.

    Far is out of the tile, half its length along x; too little is less than half the distance of
    a full episode at the commanded speed.

    Args:
        env: The environment.
        mask: Environments whose episodes end, bool ``(num_envs,)``.
        command_name: The command whose first two elements are a velocity in m/s.
        asset_cfg: The robot.

    Returns:
        The mean level of all environments of this process.

    Raises:
        ConfigurationError: If there are no levels.
    """
    if env.terrain is None:
        raise ConfigurationError(
            "The curriculum terrain_levels_vel needs levels, but env.scene.terrain is null. Set "
            "env.curriculum.terrain_levels=null as well."
        )
    walked = env.sim.data.qpos[:, asset_cfg.root_pos][:, :2] - env.env_origins[:, :2]
    distance = torch.linalg.vector_norm(walked, dim=1)
    speed = torch.linalg.vector_norm(env.command_manager.get_command(command_name)[:, :2], dim=1)
    move_up = distance > 0.5 * env.terrain.cfg.terrain_generator.size[0]
    move_down = ~move_up & (distance < speed * (0.5 * env.cfg.episode_length_s))
    env.terrain.update_env_origins(mask, move_up, move_down)
    return env.terrain.terrain_levels.float().mean()


def terrain_out_of_bounds(
    env: ManagerEnv, distance_buffer: float = 3.0, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether a robot is closer to the edge of the ground than ``distance_buffer``, in m.

    Isaac Lab's term, and mjlab's ``out_of_terrain_bounds``. A plane has no edge.
    """
    if env.terrain is None:
        return torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    position = env.sim.data.qpos[:, asset_cfg.root_pos]
    cfg = env.terrain.cfg.terrain_generator
    limits = [
        0.5 * number * length + cfg.border_width - distance_buffer
        for number, length in zip((cfg.num_rows, cfg.num_cols), cfg.size, strict=True)
    ]
    return (position[:, 0].abs() > limits[0]) | (position[:, 1].abs() > limits[1])


def crossed_tile(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return whether a robot is past either end of its tile along x.

    Raises:
        ConfigurationError: If there are no tiles.
    """
    if env.terrain is None:
        raise ConfigurationError(
            "The term crossed_tile needs tiles, but env.scene.terrain is null. Set "
            "env.success=null as well."
        )
    along = env.sim.data.qpos[:, asset_cfg.root_pos][:, 0] - env.env_origins[:, 0]
    return along.abs() > 0.5 * env.terrain.cfg.terrain_generator.size[0]
