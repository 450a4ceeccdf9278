"""Readings of the sensors of ``env.sensors`` as observations; each returns ``(num_envs, k)``.

A ``sensor_cfg`` names the sensor: ``SceneEntityCfg("imu")``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.contact_sensor import ContactBodies
from envlab.envs.entities import SceneEntityCfg
from envlab.envs.frame_transformer import FrameTransformer
from envlab.envs.inertial_sensors import Imu, JointWrench, WrenchesOfBodies
from envlab.envs.ray_sensor import RayCastSensor

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_IMU: Any = SceneEntityCfg("imu")


def imu_ang_vel(env: ManagerEnv, asset_cfg: Imu = _IMU) -> torch.Tensor:
    """Return the angular velocity of an IMU in its frame, in rad/s."""
    return asset_cfg.ang_vel_b


def imu_lin_acc(env: ManagerEnv, asset_cfg: Imu = _IMU) -> torch.Tensor:
    """Return the acceleration that an IMU feels, in its frame, in m/s²; upwards at rest."""
    return asset_cfg.lin_acc_b


def imu_orientation(env: ManagerEnv, asset_cfg: Imu = _IMU) -> torch.Tensor:
    """Return the orientation of an IMU in the world, (w, x, y, z)."""
    return asset_cfg.quat_w


def imu_projected_gravity(env: ManagerEnv, asset_cfg: Imu = _IMU) -> torch.Tensor:
    """Return the direction of gravity in an IMU's frame."""
    return asset_cfg.projected_gravity_b


def body_incoming_wrench(
    env: ManagerEnv, asset_cfg: JointWrench | WrenchesOfBodies
) -> torch.Tensor:
    """Return forces and torques of bodies on their parents, in the bodies' frames, in N and N m.

    This is the sign that Isaac Lab's own test of PhysX's joint forces has (isaaclab 2.3,
    ``test_articulation.py``): a hanging body's weight, which points down.
    """
    return -asset_cfg.wrenches_b.flatten(1)


def frame_positions(env: ManagerEnv, sensor_cfg: FrameTransformer) -> torch.Tensor:
    """Return the positions of a frame transformer's targets in its source frame, in m."""
    return sensor_cfg.target_pos_source.flatten(1)


def frame_orientations(env: ManagerEnv, sensor_cfg: FrameTransformer) -> torch.Tensor:
    """Return the orientations of a frame transformer's targets in its source frame."""
    return sensor_cfg.target_quat_source.flatten(1)


def contact_data(env: ManagerEnv, sensor_cfg: ContactBodies, field: str = "force") -> torch.Tensor:
    """Return a field of a contact sensor that has a ``primary``: all its contacts, flattened."""
    return sensor_cfg.contacts(field).flatten(1)


def ray_distances(env: ManagerEnv, sensor_cfg: RayCastSensor) -> torch.Tensor:
    """Return the lengths of a ray sensor's rays, in m, at most its maximum distance."""
    return sensor_cfg.distances
