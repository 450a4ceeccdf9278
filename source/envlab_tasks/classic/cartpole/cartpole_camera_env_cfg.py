"""Isaac-Cartpole-RGB-v0 and Isaac-Cartpole-Depth-v0: the manager-based Cartpole, seen by a camera.

The numbers are those of Isaac Lab 2.3.2 (cartpole_camera_env_cfg.py).

Differs from Isaac Lab 2.3.2:

- The floor is in the image; Isaac Lab removes it.
- Depth is in units of the camera's range, 20 m; in Isaac Lab it is in m.
- Colours, sky and lights are those of this model's file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from envlab.envs import SceneCfg, SceneEntityCfg, default, mdp
from envlab.envs.camera import CameraCfg, CameraOffsetCfg, DataType
from envlab.envs.managers import ObservationGroupCfg, ObservationTermCfg
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.terms import observation
from envlab_tasks.classic.cartpole.cartpole_env_cfg import CartpoleEnvCfg

PITCH = 2.0 * math.asin(0.1045)
"""Of the camera, downwards, in rad."""
YAW = math.pi / 2.0
"""The rail runs along x here, along y in Isaac Lab."""


def tiled_camera(data_type: DataType) -> CameraCfg:
    """Return the camera, 7 m before the rail and 1 m above it."""
    half_yaw, half_pitch = YAW / 2.0, PITCH / 2.0
    return CameraCfg(
        name="tiled_camera",
        offset=CameraOffsetCfg(
            pos=(0.0, -7.0, 3.0),
            rot=(
                math.cos(half_yaw) * math.cos(half_pitch),
                -math.sin(half_yaw) * math.sin(half_pitch),
                math.cos(half_yaw) * math.sin(half_pitch),
                math.sin(half_yaw) * math.cos(half_pitch),
            ),
            convention="world",
        ),
        data_types=[data_type],
        pattern_cfg=PinholeCameraPatternCfg(
            width=100, height=100, focal_length=24.0, horizontal_aperture=20.955
        ),
        clipping_range=(0.1, 20.0),
        depth_clipping_behavior="zero",
    )


@dataclass(kw_only=True)
class RGBSensorsCfg:
    """The camera."""

    tiled_camera: CameraCfg = default(tiled_camera("rgb"))


@dataclass(kw_only=True)
class DepthSensorsCfg:
    """The camera."""

    tiled_camera: CameraCfg = default(tiled_camera("distance_to_camera"))


@dataclass(kw_only=True)
class ImageCfg(ObservationGroupCfg):
    """The image."""

    image: ObservationTermCfg = default(
        observation(mdp.image, sensor_cfg=SceneEntityCfg("tiled_camera"))
    )


@dataclass(kw_only=True)
class ImageObservationsCfg:
    """One group."""

    policy: ImageCfg = field(default_factory=ImageCfg)


@dataclass(kw_only=True)
class CartpoleRGBEnvCfg(CartpoleEnvCfg):
    """Balance a pole that is observed by colour images."""

    scene: SceneCfg = default(SceneCfg(num_envs=512, model="envlab_assets:robots/cartpole.xml"))
    sensors: RGBSensorsCfg = field(default_factory=RGBSensorsCfg)
    observations: Any = field(default_factory=ImageObservationsCfg)


@dataclass(kw_only=True)
class CartpoleDepthEnvCfg(CartpoleEnvCfg):
    """Balance a pole that is observed by depth images."""

    scene: SceneCfg = default(SceneCfg(num_envs=512, model="envlab_assets:robots/cartpole.xml"))
    sensors: DepthSensorsCfg = field(default_factory=DepthSensorsCfg)
    observations: Any = field(default_factory=ImageObservationsCfg)
