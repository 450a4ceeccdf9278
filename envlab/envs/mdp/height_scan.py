"""What a robot sees: scans of the ground's heights, and images of cameras."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import heading
from envlab.envs.ray_patterns import GridPatternCfg
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.camera import DataType
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


@dataclass(kw_only=True)
class RayCasterCfg:
    """Vertical rays from a grid that follows the robot and turns with its yaw alone."""

    pattern_cfg: GridPatternCfg = field(default_factory=GridPatternCfg)
    """Grid from which rays start."""
    offset: tuple[float, float, float] = (0.0, 0.0, 20.0)
    """Centre of the grid from the root or body, in m."""
    method: Literal["lookup", "rays"] = "lookup"
    """``lookup`` reads the ground's height below each point: 7 times faster than ``rays`` on a CPU,
    with the same results."""


def height_scan(
    env: ManagerEnv, sensor_cfg: RayCasterCfg, offset: float = 0.5, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the robot's height above the ground at each point, less ``offset``, in m.

    On a plane the ground is at height 0.

    Args:
        env: The environment.
        sensor_cfg: The points, ``num_points`` of them.
        offset: Height that counts as zero, in m.
        asset_cfg: The robot, meaning its root; or one of its bodies, which needs ``xpos`` and
            ``xquat`` in ``env.sim.data_fields``.

    Returns:
        ``(num_envs, num_points)``.
    """
    position, quat = _pose(env, asset_cfg)
    height = position[:, 2:] - offset
    grid = _grid(env, sensor_cfg)
    if env.terrain is None:
        return height.expand(-1, grid.shape[1])
    world_x, world_y = _in_world(position, heading(quat.unsqueeze(1)), grid)
    if sensor_cfg.method == "lookup":
        return height - env.terrain.heights_at(world_x, world_y)
    start = position[:, 2:] + sensor_cfg.offset[2]
    origins = torch.stack((world_x, world_y, start.expand_as(world_x)), dim=2)
    down = env.constants["height_scan", "down"].expand_as(origins)
    distance, _ = env.sim.rays(origins, down, geom_groups=[env.terrain.geom_group])
    return torch.where(distance < 0.0, torch.inf, height - (start - distance))


def ground_normal(
    env: ManagerEnv, sensor_cfg: RayCasterCfg, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the upward unit normal, world frame, of the plane that fits the ground best.

    It is a least-squares fit to the heights at the points, whose grid must have a width along x and
    y. On a plane the normal is vertical.

    Args:
        env: The environment.
        sensor_cfg: The points.
        asset_cfg: See :func:`height_scan`.

    Returns:
        ``(num_envs, 3)``.
    """
    position, quat = _pose(env, asset_cfg)
    if env.terrain is None:
        return torch.eye(3, device=env.device)[2].expand(env.num_envs, 3)
    grid, (cos, sin) = _grid(env, sensor_cfg), heading(quat.unsqueeze(1))
    heights = env.terrain.heights_at(*_in_world(position, (cos, sin), grid))
    rise_x, rise_y = (
        (heights * w).sum(dim=1, keepdim=True) for w in _slope_weights(env, sensor_cfg)
    )
    normal = torch.cat(
        (sin * rise_y - cos * rise_x, -sin * rise_x - cos * rise_y, torch.ones_like(cos)), dim=1
    )
    return normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True)


def _slope_weights(env: ManagerEnv, cfg: RayCasterCfg) -> torch.Tensor:
    """Return the weights of heights at the points for the slopes along x and y."""
    pattern = cfg.pattern_cfg
    key = ("ground_normal", *pattern.size, pattern.resolution)
    if key not in env.constants:
        points = pattern.points()
        centred = points - points.mean(dim=1, keepdim=True)
        env.constants[key] = torch.linalg.solve(centred @ centred.T, centred).to(env.device)
    return env.constants[key]


def _in_world(
    position: torch.Tensor, heading: tuple[torch.Tensor, torch.Tensor], grid: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the points' x and y in the world, ``(num_envs, num_points)`` each."""
    cos, sin = heading
    x = position[:, :1] + (cos * grid[0] - sin * grid[1])
    y = position[:, 1:2] + (sin * grid[0] + cos * grid[1])
    return x, y


def _pose(env: ManagerEnv, asset: SceneEntity) -> tuple[torch.Tensor, torch.Tensor]:
    """Return position and orientation of the one selected body, otherwise of the root."""
    data = env.sim.data
    ids = asset.body_ids
    if len(asset.body_names) == 1 and isinstance(ids, slice) and ids.start != asset.root_body:
        return data.xpos[:, ids.start], data.xquat[:, ids.start]
    return data.qpos[:, asset.root_pos], data.qpos[:, asset.root_quat]


def _grid(env: ManagerEnv, cfg: RayCasterCfg) -> torch.Tensor:
    """Return the points' x and y from the root, on the environment's device."""
    pattern = cfg.pattern_cfg
    key = ("height_scan", *pattern.size, pattern.resolution, *cfg.offset)
    if key not in env.constants:
        if tuple(pattern.direction) != (0.0, 0.0, -1.0):
            raise ConfigurationError(
                f"A height scan's grid has the direction {list(pattern.direction)}, but its rays "
                "go straight down. For others, use a RayCastSensorCfg in env.sensors."
            )
        centre = torch.tensor(cfg.offset[:2]).unsqueeze(1)
        env.constants[key] = (pattern.points() + centre).to(env.device)
        env.constants["height_scan", "down"] = torch.tensor([0.0, 0.0, -1.0], device=env.device)
    return env.constants[key]


def image(
    env: ManagerEnv,
    sensor_cfg: Any,
    data_type: DataType | None = None,
    normalize: bool = True,
) -> torch.Tensor:
    """Return the images of a camera, those of its history in the last channels.

    Args:
        env: The environment.
        sensor_cfg: The camera: a :class:`SceneEntityCfg` of the sensor's name.
        data_type: One of the camera's; null: its first.
        normalize: Whether colours are from 0 to 1, less the image's mean of each channel, as in
            Isaac Lab, and depths in units of the far end of their range (there in m). Else colours
            are from 0 to 255, and depths in m. A segmentation holds geoms' indices; -1: nothing.

    Returns:
        Float32 ``(num_envs, height, width, channels)``.

    Raises:
        ConfigurationError: If the camera does not make this type.
    """
    values: torch.Tensor = sensor_cfg.image(data_type)
    if not normalize or values.dtype == torch.int32:
        return values.float()
    if values.dtype == torch.uint8:
        colours = values / 255.0
        return colours - colours.mean(dim=(1, 2), keepdim=True)
    return values / sensor_cfg.cfg.clipping_range[1]


def segmentation_mask(env: ManagerEnv, sensor_cfg: Any, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return 1 where a camera sees a thing, else 0, those of its history in the last channels.

    Args:
        env: The environment.
        sensor_cfg: A camera with ``segmentation`` among its ``data_types``.
        asset_cfg: The thing, or geoms of it by ``geom_names``.

    Returns:
        Float32 ``(num_envs, height, width, channels)``.

    Raises:
        ConfigurationError: If the camera makes no segmentation.
    """
    seen: torch.Tensor = sensor_cfg.image("segmentation")
    if "is_seen" not in asset_cfg.kept:
        # The last row is that of pixels that see nothing, -1.
        is_seen = torch.zeros(env.sim.model.ngeom + 1, device=env.device)
        is_seen[asset_cfg.geom_ids] = 1.0
        is_seen[-1] = 0.0
        asset_cfg.kept["is_seen"] = is_seen
    return asset_cfg.kept["is_seen"][seen.long()]
