"""Terms over generated ground: a curriculum over its levels, its end, and starts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.mdp.events import place_root, six_ranges
from envlab.envs.random import RandomStream
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


def randomize_terrain(env: ManagerEnv, mask: torch.Tensor, stream: RandomStream) -> None:
    """Move environments to any tile: a random level and a random kind.

    mjlab's event. Name it before the event that places the robot. On a plane nothing changes.
    """
    if env.terrain is not None:
        env.terrain.randomize(mask, stream.ranges([(0.0, 1.0)] * 2, mask))


def reset_root_state_from_flat_patches(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    patch_name: str = "spawn",
    pose_range: dict[str, tuple[float, float]] | None = None,
    velocity_range: dict[str, tuple[float, float]] | None = None,
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset the root to its default pose on a random flat patch of its tile, plus uniform offsets.

    mjlab's event. Without such patches, or on a plane, this is ``reset_root_state_uniform``.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        patch_name: Name in ``flat_patch_sampling`` of the ground's kinds.
        pose_range: As for ``reset_root_state_uniform``.
        velocity_range: The same.
        asset_cfg: The entity.

    Raises:
        ConfigurationError: For another name in a range.
    """
    poses = six_ranges(pose_range or {}, "pose_range")
    ranges = [*poses, *six_ranges(velocity_range or {}, "velocity_range")]
    drawn = stream.ranges([*ranges, (0.0, 1.0)], mask)
    origins = env.env_origins
    if env.terrain is not None and patch_name in env.terrain.flat_patches:
        origins = env.terrain.patches(patch_name, drawn[:, 12])
    place_root(env, origins, ranges, drawn[:, :12], asset_cfg)


def reset_root_state_from_terrain(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    pose_range: dict[str, tuple[float, float]],
    velocity_range: dict[str, tuple[float, float]],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset the root to its default pose on a random flat patch called ``init_pos``, turned.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        pose_range: Bounds of ``roll``, ``pitch`` and ``yaw`` in rad.
        velocity_range: As for ``reset_root_state_uniform``.
        asset_cfg: The entity.

    Raises:
        ConfigurationError: For another name in a range; or if there are no such patches.
    """
    shifted = [name for name in ("x", "y", "z") if name in pose_range]
    if shifted:
        raise ConfigurationError(
            f"pose_range has the key {shifted[0]!r}, but the position is that of a flat patch: its "
            "keys are roll, pitch and yaw. For offsets use reset_root_state_from_flat_patches."
        )
    patches = {} if env.terrain is None else env.terrain.flat_patches
    if "init_pos" not in patches:
        raise ConfigurationError(
            "reset_root_state_from_terrain needs flat patches called init_pos, but the ground has "
            f"{', '.join(patches) or 'none'}. Add init_pos to flat_patch_sampling of a kind in "
            "env.scene.terrain.terrain_generator.sub_terrains, or use reset_root_state_uniform."
        )
    reset_root_state_from_flat_patches(
        env, mask, stream, "init_pos", pose_range, velocity_range, asset_cfg
    )
