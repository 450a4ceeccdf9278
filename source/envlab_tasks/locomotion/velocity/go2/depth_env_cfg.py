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

from envlab.envs import SceneEntityCfg, default, mdp
from envlab.envs.camera import CameraCfg, CameraOffsetCfg
from envlab.envs.managers import ObservationGroupCfg, ObservationTermCfg
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.terms import observation
from envlab_tasks.locomotion.velocity.go2 import env_cfg
from envlab_tasks.locomotion.velocity.go2.blind_env_cfg import (
    TeacherObservationsCfg,
    teacher_groups,
)
from envlab_tasks.locomotion.velocity.variants import to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import SensorsCfg, VelocityEnvCfg

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
class DepthObservationsCfg(TeacherObservationsCfg):
    """The student's two groups, and the teacher's."""

    depth: DepthGroupCfg = field(default_factory=DepthGroupCfg)


def with_camera(cfg: VelocityEnvCfg, *, noise: bool = True) -> VelocityEnvCfg:
    """Give 192 blind robots the camera, and their teacher what they saw."""
    groups = teacher_groups(cfg)
    cfg.scene.num_envs = 192
    cfg.observations = DepthObservationsCfg(
        policy=groups.policy, critic=groups.critic, depth=DepthGroupCfg(enable_corruption=noise)
    )
    cfg.sensors = DepthSensorsCfg()
    return cfg


def rough() -> VelocityEnvCfg:
    """Return the task on stairs, blocks, noise and slopes, which the robot sees."""
    return with_camera(env_cfg.rough())


def rough_play() -> VelocityEnvCfg:
    """Return the same with few robots on few tiles, no noise, no pushes, no curriculum."""
    return to_play(with_camera(env_cfg.rough(), noise=False))
