"""Mjlab-Multi-Cube-Seg-Yam: one of three cubes, told by a mask. The numbers are mjlab 1.6.0's.

Differs from mjlab 1.6.0:

- Rewards use the chosen cube's current position; mjlab uses that of the step before.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, field
from typing import Any

from envlab.envs import SceneCfg, SimulationCfg, default
from envlab.envs.camera import CameraCfg
from envlab.envs.managers import ObservationGroupCfg, ObservationTermCfg
from envlab.envs.terms import observation
from envlab_tasks.manipulation.lift_yam import lift_terms
from envlab_tasks.manipulation.lift_yam.camera_env_cfg import (
    CAMERA,
    SeeingPolicyCfg,
    wrist_camera,
)
from envlab_tasks.manipulation.lift_yam.lift_yam_env_cfg import (
    COMMAND,
    CurriculumCfg,
    SensorsCfg,
    YamLiftCubeEnvCfg,
    cube,
    scene,
    simulation,
)
from envlab_tasks.manipulation.lift_yam.lifting_command import (
    LiftingCommandCfg,
    ObjectPoseRangeCfg,
)

CUBES = ("cube_0", "cube_1", "cube_2")


def cubes(num_envs: int = 4096) -> SceneCfg:
    """Return the arm with a red, a green and a blue cube."""
    hues = {name: place / len(CUBES) for place, name in enumerate(CUBES)}
    return scene(
        num_envs, **{name: cube(colorsys.hsv_to_rgb(hue, 0.8, 0.9)) for name, hue in hues.items()}
    )


def lift_one(seconds: tuple[float, float]) -> LiftingCommandCfg:
    """Return the command to lift one of the cubes, another after some seconds."""
    return LiftingCommandCfg(
        entity_names=list(CUBES),
        resampling_time_range=seconds,
        difficulty="dynamic",
        object_pose_range=ObjectPoseRangeCfg(x=(0.25, 0.4), y=(-0.15, 0.15)),
    )


@dataclass(kw_only=True)
class CommandsCfg:
    """Another cube and place, and all cubes put elsewhere, every 8 to 12 s."""

    lift_height: LiftingCommandCfg = default(lift_one((8.0, 12.0)))


@dataclass(kw_only=True)
class MaskedDepthsCfg(ObservationGroupCfg):
    """How far away is what the camera sees, to 0.5 m, and which of it is the chosen cube."""

    depth: ObservationTermCfg = default(
        observation(lift_terms.camera_depth, sensor_cfg=CAMERA, cutoff_distance=0.5)
    )
    target_mask: ObservationTermCfg = default(
        observation(lift_terms.camera_target_cube_mask, sensor_cfg=CAMERA, **COMMAND)
    )


@dataclass(kw_only=True)
class MaskObservationsCfg:
    """The policy's group, the critic's, which is the same without noise, and the image of both."""

    policy: SeeingPolicyCfg = field(default_factory=SeeingPolicyCfg)
    critic: SeeingPolicyCfg = default(SeeingPolicyCfg(enable_corruption=False))
    camera: MaskedDepthsCfg = field(default_factory=MaskedDepthsCfg)


@dataclass(kw_only=True)
class MaskSensorsCfg(SensorsCfg):
    """Contacts, and the camera."""

    camera_d405: CameraCfg = default(wrist_camera("depth", "segmentation"))


@dataclass(kw_only=True)
class YamMultiCubeEnvCfg(YamLiftCubeEnvCfg):
    """Lift one of three cubes, of which a mask tells the camera which it is."""

    sim: SimulationCfg = default(simulation(num_contacts_max=55 + 3 * 120))
    scene: SceneCfg = default(cubes())
    observations: Any = field(default_factory=MaskObservationsCfg)
    commands: Any = field(default_factory=CommandsCfg)
    sensors: SensorsCfg = field(default_factory=MaskSensorsCfg)


@dataclass(kw_only=True)
class YamMultiCubePlayEnvCfg(YamMultiCubeEnvCfg):
    """Few environments, no noise, no curriculum, and another cube every 4 s."""

    scene: SceneCfg = default(cubes(50))
    observations: Any = default(
        MaskObservationsCfg(policy=SeeingPolicyCfg(enable_corruption=False))
    )
    commands: Any = default(CommandsCfg(lift_height=lift_one((4.0, 4.0))))
    curriculum: CurriculumCfg | None = None
