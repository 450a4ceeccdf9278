"""Observation terms; each returns ``(num_envs, k)``.

Of ``env.sensors``, ``sensor_cfg`` names the sensor: ``SceneEntityCfg("imu")``. MuJoCo's own, in the
model, need ``sensordata`` in ``env.sim.data_fields``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from envlab.envs.contact_sensor import ContactBodies
from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns
from envlab.envs.frame_transformer import FrameTransformer
from envlab.envs.inertial_sensors import Imu, JointWrench, WrenchesOfBodies
from envlab.envs.mdp.events import joint_limits
from envlab.envs.ray_sensor import RayCastSensor
from envlab.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


_ROBOT: Any = SceneEntityCfg("robot")


def joint_pos(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return joint positions, in m or rad."""
    return columns(env.sim.data.qpos, asset_cfg.qpos_ids)


def joint_pos_rel(
    env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT, biased: bool = False
) -> torch.Tensor:
    """Return joint positions relative to the default ones, in m or rad.

    ``biased``: as encoders measure them, with the errors of ``randomize_encoder_bias``.
    """
    positions: torch.Tensor = env.once(
        ("joint_pos_rel", *asset_cfg.joint_names),
        lambda: (
            columns(env.sim.data.qpos, asset_cfg.qpos_ids)
            - columns(env.default_qpos_rows, asset_cfg.qpos_ids)
        ),
    )
    if biased and env.encoder_bias is not None:
        return positions + columns(env.encoder_bias, asset_cfg.qpos_ids)
    return positions


def joint_pos_limit_normalized(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return joint positions in units of their limits: -1 at the lower one, 1 at the upper one."""
    key = ("joint_centres", *asset_cfg.joint_names)
    if key not in env.constants:
        low, high = joint_limits(env, asset_cfg)
        env.constants[key] = torch.stack((-(low + high) / (high - low), 2.0 / (high - low)))
    offsets, scales = env.constants[key]
    found: torch.Tensor = env.once(
        key,
        lambda: torch.addcmul(offsets, columns(env.sim.data.qpos, asset_cfg.qpos_ids), scales),
    )
    return found


def joint_vel(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return joint velocities, in m/s or rad/s."""
    return columns(env.sim.data.qvel, asset_cfg.qvel_ids)


def joint_vel_rel(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return joint velocities relative to the default ones, which are zero here."""
    return columns(env.sim.data.qvel, asset_cfg.qvel_ids)


def actuator_force(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the forces of the joints' actuators, in N or N m, ``(num_envs, num_joints)``.

    Needs ``actuator_force`` in ``env.sim.data_fields``; forces are those of the last physics step.
    """
    return columns(env.sim.data.actuator_force, asset_cfg.actuator_ids)


def sensor(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the readings of the named MuJoCo sensors, in their own units."""
    return columns(env.sim.data.sensordata, asset_cfg.sensor_ids)


def last_action(env: ManagerEnv) -> torch.Tensor:
    """Return the last action; zero after a reset."""
    return env.action_manager.action


def generated_commands(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the command of this name."""
    return env.command_manager.get_command(command_name)


def joint_effort(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return what actuators exert on joints, in N or N m, ``(num_envs, num_joints)``.

    Needs ``qfrc_actuator`` in ``env.sim.data_fields``; efforts are those of the last physics step,
    within all limits.
    """
    return columns(env.sim.data.qfrc_actuator, asset_cfg.qvel_ids)


def current_time_s(env: ManagerEnv) -> torch.Tensor:
    """Return the time since the episode began, in s, ``(num_envs, 1)``."""
    return env.episode_length_buf.unsqueeze(1) * env.step_dt


def remaining_time_s(env: ManagerEnv) -> torch.Tensor:
    """Return the time until the episode's limit, in s, ``(num_envs, 1)``."""
    return env.cfg.episode_length_s - current_time_s(env)


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


def builtin_sensor(env: ManagerEnv, sensor_name: str) -> torch.Tensor:
    """Return the reading of the MuJoCo sensor of this name, in its own unit."""
    model, key = env.sim.model, ("sensor", sensor_name)
    if key not in env.constants:
        names = [model.sensor(i).name for i in range(model.nsensor)]
        if sensor_name not in names:
            raise ConfigurationError(
                f"The model has no sensor {sensor_name!r}; it has {', '.join(names) or 'none'}."
                f"{did_you_mean(sensor_name, names)}"
            )
        env.constants[key] = _columns(env, [names.index(sensor_name)])[0]
    return env.sim.data.sensordata[:, env.constants[key]]


def projected_gravity_from_sensor(env: ManagerEnv, sensor_name: str) -> torch.Tensor:
    """Return the direction of gravity in a site's frame, ``(num_envs, 3)``.

    The sensor is ``<framezaxis objtype="body" objname="world" reftype="site" refname="..."/>``, the
    world's vertical in the frame of the site.
    """
    return -builtin_sensor(env, sensor_name)


def body_accelerations(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return what ``<framelinacc>`` sensors on bodies measure, ``(num_envs, num_bodies, 3)``.

    Raises:
        ConfigurationError: If one of the bodies has none.
    """
    model, ids = env.sim.model, asset_cfg.body_ids
    # A tensor in the key stays alive, so that no other one gets its identity.
    key = ("framelinacc", *((ids.start, ids.stop) if isinstance(ids, slice) else (ids,)))
    if key not in env.constants:
        bodies = range(model.nbody)[ids] if isinstance(ids, slice) else ids.tolist()
        env.constants[key] = _columns(env, [_acceleration_of(model, body) for body in bodies])
    return env.sim.data.sensordata[:, env.constants[key]]


def _acceleration_of(model: mujoco.MjModel, body: int) -> int:
    for sensor in np.flatnonzero(model.sensor_type == mujoco.mjtSensor.mjSENS_FRAMELINACC):
        place = (model.sensor_objtype[sensor], model.sensor_objid[sensor])
        is_in_the_world = model.sensor_reftype[sensor] == mujoco.mjtObj.mjOBJ_UNKNOWN
        if place == (mujoco.mjtObj.mjOBJ_BODY, body) and is_in_the_world:
            return int(sensor)
    name = model.body(body).name
    raise ConfigurationError(
        f'The body {name!r} has no <framelinacc> sensor. Add <framelinacc objtype="body" '
        f'objname="{name}"/> to the model\'s <sensor>, or to env.sensors a MujocoSensorCfg of the '
        "type framelinacc."
    )


def _columns(env: ManagerEnv, sensors: list[int]) -> torch.Tensor:
    """Return the columns of ``sensordata`` of sensors of one kind, int64 ``(num_sensors, k)``."""
    model = env.sim.model
    starts = np.asarray(model.sensor_adr)[sensors]
    places = starts[:, None] + np.arange(int(model.sensor_dim[sensors[0]]))
    return torch.as_tensor(places, dtype=torch.int64, device=env.device)
