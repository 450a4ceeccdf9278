"""What a robot sees: scans of the ground's heights, and images of cameras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity
from envlab.envs.math import heading
from envlab.envs.ray_caster import RayCaster, RayCasterCfg
from envlab.envs.ray_sensor import RayCastSensor

if TYPE_CHECKING:
    from envlab.envs.camera import DataType
    from envlab.envs.manager_env import ManagerEnv


def height_scan(
    env: ManagerEnv, sensor_cfg: RayCaster | RayCastSensor, offset: float = 0.5
) -> torch.Tensor:
    """Return the robot's height above the ground at each point, less ``offset``, in m.

    Args:
        env: The environment.
        sensor_cfg: A :class:`RayCasterCfg` of ``env.sensors``, or a :class:`RayCastSensorCfg`.
        offset: Height that counts as zero, in m.

    Returns:
        ``(num_envs, num_rays)``.
    """
    return sensor_cfg.clearances(offset)


def ground_normal(env: ManagerEnv, sensor_cfg: RayCaster) -> torch.Tensor:
    """Return the upward unit normal, world frame, of the plane that fits the ground best.

    It is a least-squares fit to the heights at the points, whose grid must have a width along x and
    y. On a plane the normal is vertical.

    Args:
        env: The environment.
        sensor_cfg: The points: a :class:`RayCasterCfg` of ``env.sensors``.

    Returns:
        ``(num_envs, 3)``.
    """
    if env.terrain is None:
        return torch.eye(3, device=env.device)[2].expand(env.num_envs, 3)
    heights, (cos, sin) = sensor_cfg.ground_heights, heading(sensor_cfg.quat_w.unsqueeze(1))
    rise_x, rise_y = (
        (heights * w).sum(dim=1, keepdim=True) for w in _slope_weights(env, sensor_cfg.cfg)
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
            Isaac Lab, normals' columns from 0 to 1, and depths in units of the far end of their
            range (there in m). Else colours are from 0 to 255, and depths in m. A segmentation
            holds geoms' indices; -1: nothing.

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
    if (data_type or sensor_cfg.cfg.data_types[0]) == "normals":
        return 0.5 * (values + 1.0)
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
