"""Envlab-Velocity-Rough-Depth-Unitree-Go2-v0: Go2 with its own sensors and a depth camera.

The group ``policy`` is that of Envlab-Velocity-Rough-Blind-Unitree-Go2-v0, ``depth`` is the image
of a camera in the head, and ``critic`` has the observations of
Isaac-Velocity-Rough-Unitree-Go2-v0 without noise, so that its policies can teach here.

The camera is that of Cheng et al. 2023, "Extreme Parkour with Legged Robots" (arXiv 2309.14341):
58 x 87 pixels over 87 degrees, up to 2 m, an image every 0.1 s that arrives late. Position, pitch,
noise and delay are ours: it looks down by 0.35 rad from the front of the head. Theirs looks down by
-5 to 5 degrees from 0.27 m before the base's centre, without noise and with a delay of one image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, default, mdp
from envlab.envs.camera import CameraCfg, CameraOffsetCfg
from envlab.envs.managers import ObservationGroupCfg, ObservationTermCfg
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.terms import observation
from envlab.envs.terrain import TerrainCfg
from envlab_tasks.locomotion.velocity.go2.base_env_cfg import MODEL, NO_PUSHES
from envlab_tasks.locomotion.velocity.go2.blind_env_cfg import BlindPolicyCfg, RoughTeacherCfg
from envlab_tasks.locomotion.velocity.go2.rough_env_cfg import Go2RoughEnvCfg
from envlab_tasks.locomotion.velocity.rough_ground import CurriculumCfg, few_tiles
from envlab_tasks.locomotion.velocity.small_quadruped_env_cfg import small_terrains
from envlab_tasks.locomotion.velocity.velocity_env_cfg import EventsCfg, SensorsCfg

PITCH = 0.35
"""Pitch of the camera, downwards, in rad."""
HALF_WIDTH = math.tan(math.radians(87.0) / 2.0)


def head_camera() -> CameraCfg:
    """Return the camera in the head."""
    return CameraCfg(
        name="depth_camera",
        data_types=["depth"],
        body_name="base",
        offset=CameraOffsetCfg(
            pos=(0.33, 0.0, 0.03), rot=(math.cos(PITCH / 2), 0.0, math.sin(PITCH / 2), 0.0)
        ),
        pattern_cfg=PinholeCameraPatternCfg(
            width=87, height=58, focal_length=1.0, horizontal_aperture=2.0 * HALF_WIDTH
        ),
        clipping_range=(0.05, 2.0),
        update_period=0.1,
        delay_range=(2, 6),
        geom_groups=None,
        seen_bodies=[],  # the ground alone
    )


def depth_image() -> ObservationTermCfg:
    """Return the image, in units of its range, with noise of 2 cm."""
    return observation(mdp.image, 0.01, sensor_cfg=SceneEntityCfg("depth_camera"), clip=(0.0, 1.0))


@dataclass(kw_only=True)
class DepthSensorsCfg(SensorsCfg):
    """Contact forces, the teacher's scan of the ground, and the camera."""

    height_scanner: mdp.RayCasterCfg | None = default(mdp.RayCasterCfg())
    depth_camera: CameraCfg = default(head_camera())


@dataclass(kw_only=True)
class DepthGroupCfg(ObservationGroupCfg):
    """The image."""

    enable_corruption: bool = True
    image: ObservationTermCfg = default(depth_image())


@dataclass(kw_only=True)
class DepthObservationsCfg(RoughTeacherCfg):
    """The student's two groups, and the teacher's."""

    depth: DepthGroupCfg = field(default_factory=DepthGroupCfg)


NO_NOISE = DepthObservationsCfg(
    policy=BlindPolicyCfg(enable_corruption=False), depth=DepthGroupCfg(enable_corruption=False)
)


@dataclass(kw_only=True)
class Go2RoughDepthEnvCfg(Go2RoughEnvCfg):
    """Go2 on stairs, blocks, noise and slopes, which it sees."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=192, model=MODEL, terrain=TerrainCfg(terrain_generator=small_terrains()))
    )
    observations: DepthObservationsCfg = field(default_factory=DepthObservationsCfg)
    sensors: DepthSensorsCfg = field(default_factory=DepthSensorsCfg)


@dataclass(kw_only=True)
class Go2RoughDepthPlayEnvCfg(Go2RoughDepthEnvCfg):
    """Few robots on few tiles of any difficulty, no noise, no pushes, no curriculum."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=50, model=MODEL, terrain=few_tiles(small_terrains()))
    )
    observations: DepthObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
    curriculum: CurriculumCfg | None = None
