"""What MuJoCo's sensors in the model measure; observations of ``(num_envs, k)``.

All need ``sensordata`` in ``env.sim.data_fields``. Sensors are found by what they are mounted on:
an IMU is a site with ``<framequat objtype="site" objname="imu"/>``, ``<gyro site="imu"/>`` and
``<accelerometer site="imu"/>``, of which a term needs one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import gravity_in_body
from envlab.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_IMU: Any = SceneEntityCfg("robot", site_names="imu")
Kind = Literal["framequat", "gyro", "accelerometer", "force", "torque", "framelinacc"]


def imu_orientation(env: ManagerEnv, asset_cfg: SceneEntity = _IMU) -> torch.Tensor:
    """Return orientations of sites in the world, (w, x, y, z), by ``<framequat>`` sensors.

    ``asset_cfg`` names the sites, in place of Isaac Lab's sensor of the scene.
    """
    return site_readings(env, "framequat", asset_cfg).flatten(1)


def imu_projected_gravity(env: ManagerEnv, asset_cfg: SceneEntity = _IMU) -> torch.Tensor:
    """Return the direction of gravity in sites' frames, by ``<framequat>`` sensors."""
    return gravity_in_body(site_readings(env, "framequat", asset_cfg)).flatten(1)


def imu_ang_vel(env: ManagerEnv, asset_cfg: SceneEntity = _IMU) -> torch.Tensor:
    """Return angular velocities of sites in their own frames, in rad/s, by ``<gyro>`` sensors."""
    return site_readings(env, "gyro", asset_cfg).flatten(1)


def imu_lin_acc(env: ManagerEnv, asset_cfg: SceneEntity = _IMU) -> torch.Tensor:
    """Return what ``<accelerometer>`` sensors on sites measure, in their own frames, in m/s^2.

    At rest that is 9.81 upwards, as with the ``gravity_bias`` that Isaac Lab's IMU has by default.
    """
    return site_readings(env, "accelerometer", asset_cfg).flatten(1)


def body_incoming_wrench(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return forces in N and torques in N m that bodies get through their joints, six for each.

    They are measured by a ``<force>`` and a ``<torque>`` sensor on a site of each body, at the site
    and in its frame; Isaac Lab's are at the joint. Both are of the parent on the body.
    """
    parts = [body_readings(env, kind, asset_cfg) for kind in ("force", "torque")]
    return torch.cat(parts, dim=2).flatten(1)


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


def site_readings(env: ManagerEnv, kind: Kind, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return readings of a kind of sensors on an entity's sites, ``(num_envs, num_sites, k)``."""
    return _readings(env, kind, "site", asset_cfg.site_ids, range(env.sim.model.nsite))


def body_readings(env: ManagerEnv, kind: Kind, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return readings of sensors on bodies or on sites of them, ``(num_envs, num_bodies, k)``."""
    return _readings(env, kind, "body", asset_cfg.body_ids, range(env.sim.model.nbody))


def _readings(
    env: ManagerEnv,
    kind: Kind,
    owner: Literal["site", "body"],
    ids: slice | torch.Tensor,
    everything: range,
) -> torch.Tensor:
    # A tensor in the key stays alive, so that no other one gets its identity.
    key = (kind, owner, *((ids.start, ids.stop) if isinstance(ids, slice) else (ids,)))
    if key not in env.constants:
        chosen = everything[ids] if isinstance(ids, slice) else ids.tolist()
        sensors = [_mounted_on(env.sim.model, kind, owner, i) for i in chosen]
        env.constants[key] = _columns(env, sensors)
    return env.sim.data.sensordata[:, env.constants[key]]


def _mounted_on(model: mujoco.MjModel, kind: Kind, owner: Literal["site", "body"], i: int) -> int:
    """Return the first sensor of a kind on a site or body.

    Raises:
        ConfigurationError: If there is none.
    """
    of_kind = getattr(mujoco.mjtSensor, f"mjSENS_{kind.upper()}")
    for sensor in np.flatnonzero(model.sensor_type == of_kind):
        place, is_on = int(model.sensor_objid[sensor]), model.sensor_objtype[sensor]
        if is_on == mujoco.mjtObj.mjOBJ_SITE and owner == "body" and kind != "framelinacc":
            place = int(model.site_bodyid[place])
        elif is_on != getattr(mujoco.mjtObj, f"mjOBJ_{owner.upper()}"):
            continue
        if place == i and model.sensor_reftype[sensor] == mujoco.mjtObj.mjOBJ_UNKNOWN:
            return int(sensor)
    name = getattr(model, owner)(i).name
    if kind.startswith("frame"):
        place_of = f'objtype="{owner}" objname="{name}"'
    else:
        place_of = f'site="{name if owner == "site" else "..."}"'
    raise ConfigurationError(
        f"The {owner} {name!r} has no <{kind}> sensor. Add <{kind} {place_of}/> to the model's "
        f"<sensor>{', for a site of the body' if '...' in place_of else ''}."
    )


def _columns(env: ManagerEnv, sensors: list[int]) -> torch.Tensor:
    """Return the columns of ``sensordata`` of sensors of one kind, int64 ``(num_sensors, k)``."""
    model = env.sim.model
    starts = np.asarray(model.sensor_adr)[sensors]
    places = starts[:, None] + np.arange(int(model.sensor_dim[sensors[0]]))
    return torch.as_tensor(places, dtype=torch.int64, device=env.device)
