"""Mjlab-Lift-Cube-Yam-Rgb and Mjlab-Lift-Cube-Yam-Depth: the cube is seen. mjlab 1.6.0's numbers.

Differs from mjlab 1.6.0:

- Depth is 1 where a camera sees nothing; in mjlab, 0.02.
- Colours are this scene's, in the light of the arm's file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envlab.envs import SceneEntityCfg, default, mdp
from envlab.envs.camera import CameraCfg, DataType
from envlab.envs.managers import EventTermCfg, ObservationGroupCfg, ObservationTermCfg
from envlab.envs.terms import at_reset, observation
from envlab_tasks.manipulation.lift_yam import lift_terms
from envlab_tasks.manipulation.lift_yam.lift_yam_env_cfg import (
    COMMAND,
    CriticCfg,
    EventsCfg,
    RobotCfg,
    SensorsCfg,
    YamLiftCubeEnvCfg,
    YamLiftCubePlayEnvCfg,
)

CAMERA = SceneEntityCfg("camera_d405")


def wrist_camera(*data_types: DataType) -> CameraCfg:
    """Return the camera at the wrist, which sees the cubes, the ground and collision shapes."""
    return CameraCfg(
        camera_name="camera_d405",
        width=32,
        height=32,
        data_types=list(data_types),
        geom_groups=[0, 3],
    )


@dataclass(kw_only=True)
class SeeingPolicyCfg(RobotCfg):
    """Joints (8 each), the last action, and the way to the place, all but that with noise."""

    enable_corruption: bool = True
    actions: ObservationTermCfg = default(observation(mdp.last_action))
    goal_position: ObservationTermCfg = default(observation(lift_terms.target_position, **COMMAND))


@dataclass(kw_only=True)
class ColoursCfg(ObservationGroupCfg):
    """What the camera sees, in colours."""

    camera_d405_rgb: ObservationTermCfg = default(
        observation(lift_terms.camera_rgb, sensor_cfg=CAMERA)
    )


@dataclass(kw_only=True)
class DepthsCfg(ObservationGroupCfg):
    """How far away that is, to 0.5 m."""

    camera_d405_depth: ObservationTermCfg = default(
        observation(lift_terms.camera_depth, sensor_cfg=CAMERA, cutoff_distance=0.5)
    )


@dataclass(kw_only=True)
class RgbObservationsCfg:
    """The policy's group, the critic's, which knows where the cube is, and the image of both."""

    policy: SeeingPolicyCfg = field(default_factory=SeeingPolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)
    camera: ColoursCfg = field(default_factory=ColoursCfg)


@dataclass(kw_only=True)
class DepthObservationsCfg:
    """The same with depths."""

    policy: SeeingPolicyCfg = field(default_factory=SeeingPolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)
    camera: DepthsCfg = field(default_factory=DepthsCfg)


@dataclass(kw_only=True)
class RgbEventsCfg(EventsCfg):
    """The cube has another colour in each episode."""

    cube_color: EventTermCfg = default(
        at_reset(
            mdp.dr.geom_rgba,
            asset_cfg=SceneEntityCfg("cube", geom_names=".*"),
            operation="abs",
            distribution="uniform",
            axes=[0, 1, 2],
            ranges=(0.0, 1.0),
        )
    )


@dataclass(kw_only=True)
class RgbSensorsCfg(SensorsCfg):
    """Contacts, and the camera."""

    camera_d405: CameraCfg = default(wrist_camera("rgb"))


@dataclass(kw_only=True)
class DepthSensorsCfg(SensorsCfg):
    """Contacts, and the camera."""

    camera_d405: CameraCfg = default(wrist_camera("depth"))


@dataclass(kw_only=True)
class YamLiftCubeRgbEnvCfg(YamLiftCubeEnvCfg):
    """Lift a cube that a camera at the wrist sees in colours."""

    observations: Any = field(default_factory=RgbObservationsCfg)
    events: EventsCfg = field(default_factory=RgbEventsCfg)
    sensors: SensorsCfg = field(default_factory=RgbSensorsCfg)


@dataclass(kw_only=True)
class YamLiftCubeDepthEnvCfg(YamLiftCubeEnvCfg):
    """Lift a cube of which a camera at the wrist sees how far it is."""

    observations: Any = field(default_factory=DepthObservationsCfg)
    sensors: SensorsCfg = field(default_factory=DepthSensorsCfg)


@dataclass(kw_only=True)
class YamLiftCubeRgbPlayEnvCfg(YamLiftCubePlayEnvCfg):
    """Few environments, no noise, no curriculum, and another place every 4 s."""

    observations: Any = default(RgbObservationsCfg(policy=SeeingPolicyCfg(enable_corruption=False)))
    events: EventsCfg = field(default_factory=RgbEventsCfg)
    sensors: SensorsCfg = field(default_factory=RgbSensorsCfg)


@dataclass(kw_only=True)
class YamLiftCubeDepthPlayEnvCfg(YamLiftCubePlayEnvCfg):
    """The same with depths."""

    observations: Any = default(
        DepthObservationsCfg(policy=SeeingPolicyCfg(enable_corruption=False))
    )
    sensors: SensorsCfg = field(default_factory=DepthSensorsCfg)
