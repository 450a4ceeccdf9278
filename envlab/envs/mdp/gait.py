"""Gaits of walking robots: a sensor of feet, and mjlab 1.6.0's rewards and observations.

``command_name`` names a velocity command, (vx, vy, wz) in m/s and rad/s. A ``feet_cfg`` names a
:class:`FootSensorCfg`, a ``sensor_cfg`` the same feet in a contact sensor. Rewards return
``(num_envs,)``. Formulas are those of mjlab's ``tasks/velocity/mdp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from envlab.envs.contact_sensor import ContactBodies
from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns, joint_values, resolve_entity
from envlab.envs.managers.sensor import SensorTerm, SensorTermCfg
from envlab.envs.masks import clear
from envlab.envs.math import gaussian, gravity_in_body, quat_apply_inverse, scaled_square
from envlab.envs.mdp.observations import joint_pos_rel
from envlab.envs.mdp.perception import ground_normal
from envlab.envs.mdp.root import base_ang_vel, base_origin_vel
from envlab.envs.ray_caster import RayCaster
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv

_ROBOT: Any = SceneEntityCfg("robot")


@dataclass(kw_only=True)
class FootSensorCfg(SensorTermCfg):
    """Heights of feet, their sliding speeds, and their maximum heights in the last swing.

    Needs ``site_xpos``, ``cvel`` and ``subtree_com`` in ``env.sim.data_fields``, and comes after
    the contact sensor in ``env.sensors``.
    """

    site_names: list[str]
    """A site under each foot."""
    contact_sensor: str = "contact_forces"
    """The sensor that detects contacts of the sites' bodies."""
    ring_radius_m: float = 0.0
    """On generated ground, heights are above the highest of its points under the site and on a ring
    around it, of this radius; 0: under the site alone."""
    num_ring_samples: int = 0
    """Points of the ring."""

    def build(self, env: VectorEnv) -> FootSensor:
        return FootSensor(self, env)


class FootSensor(SensorTerm):
    """See :class:`FootSensorCfg`; rows are environments, columns feet.

    Attributes:
        body_names: The bodies of the sites, in their order.
        peak_heights: Maximum height since a foot last touched down, in m.
        landing_heights: That height where a foot touches down in this step, else 0.
    """

    STATE = State(per_env=("peak_heights", "landing_heights"))

    def __init__(self, cfg: FootSensorCfg, env: VectorEnv) -> None:
        self._env, self._contact_name = env, cfg.contact_sensor
        model = env.sim.model
        entity = SceneEntityCfg("robot", site_names=cfg.site_names)
        robot = resolve_entity(entity, model, env.device)
        self.sites, self._root = robot.site_ids, robot.root_body
        sites = [model.site(name).id for name in cfg.site_names]
        self.body_names = [model.body(model.site_bodyid[site]).name for site in sites]
        self._bodies = torch.tensor(
            np.asarray(model.site_bodyid)[sites], dtype=torch.int64, device=env.device
        )
        angles = torch.arange(cfg.num_ring_samples) * (2.0 * math.pi / max(cfg.num_ring_samples, 1))
        ring = cfg.ring_radius_m * torch.stack((angles.cos(), angles.sin()))
        self._around = torch.cat((torch.zeros(2, 1), ring), dim=1).to(env.device)
        shape = (env.num_envs, len(sites))
        self._memory = torch.zeros(2, *shape, device=env.device)
        self.peak_heights, self.landing_heights = self._memory.unbind()
        self._contacts: ContactBodies | None = None

    @property
    def heights(self) -> torch.Tensor:
        """Heights of the sites above the ground, in m, ``(num_envs, num_feet)``."""
        pos = columns(self._env.sim.data.site_xpos, self.sites)
        terrain = self._env.terrain
        if terrain is None:
            return pos[..., 2]
        x, y = (pos[..., i, None] + self._around[i] for i in (0, 1))
        return pos[..., 2] - terrain.heights_at(x, y).amax(dim=2)

    @property
    def speeds(self) -> torch.Tensor:
        """Horizontal speeds of the sites, in m/s, ``(num_envs, num_feet)``."""
        speeds: torch.Tensor = self._env.once(self, self._measure_speeds)
        return speeds

    def _measure_speeds(self) -> torch.Tensor:
        data = self._env.sim.data
        # cvel is the velocity of the body-fixed frame now at the tree's centre of mass.
        spatial = data.cvel[:, self._bodies]
        arm = columns(data.site_xpos, self.sites) - data.subtree_com[:, self._root, None]
        velocity = spatial[..., 3:] + torch.linalg.cross(spatial[..., :3], arm)
        return torch.linalg.vector_norm(velocity[..., :2], dim=2)

    def update(self, dt: float) -> None:
        contacts = self._feet()
        peaks = torch.maximum(self.peak_heights, self.heights)
        torch.where(contacts.in_contact, self.peak_heights, peaks, out=self.peak_heights)
        landed = contacts.first_contact
        torch.mul(self.peak_heights, landed, out=self.landing_heights)
        self.peak_heights.masked_fill_(landed, 0.0)

    def reset(self, mask: torch.Tensor) -> None:
        clear(self._memory.transpose(0, 1), mask)

    def select(self, cfg: SceneEntityCfg) -> FootSensor:
        return self

    def _feet(self) -> ContactBodies:
        """Return the feet in the contact sensor, which exists once all sensors are built."""
        if self._contacts is None:
            manager: Any = self._env.sensor_manager  # type: ignore[attr-defined]
            if self._contact_name not in manager.active_terms:
                raise ConfigurationError(
                    f"A foot sensor needs the contact sensor {self._contact_name!r}, but "
                    f"env.sensors has {', '.join(manager.active_terms)}."
                )
            selected = SceneEntityCfg(self._contact_name, body_names=self.body_names)
            contacts: ContactBodies = manager.get_term(self._contact_name).select(selected)
            if contacts.body_names != self.body_names:
                raise ConfigurationError(
                    f"site_names of a foot sensor are on {', '.join(self.body_names)}; give them "
                    f"in the order of the contact sensor: {', '.join(contacts.body_names)}."
                )
            self._contacts = contacts
        return self._contacts


# Observations -------------------------------------------------------------------------------------


def foot_height(env: ManagerEnv, feet_cfg: FootSensor) -> torch.Tensor:
    """Return the height of each foot above the ground, in m."""
    return feet_cfg.heights


def foot_air_time(env: ManagerEnv, sensor_cfg: ContactBodies) -> torch.Tensor:
    """Return how long each foot has been in the air, in s; 0 on the ground."""
    return sensor_cfg.current_air_time


def foot_contact(env: ManagerEnv, sensor_cfg: ContactBodies) -> torch.Tensor:
    """Return 1 for each foot that touches, else 0."""
    return sensor_cfg.in_contact.float()


def foot_contact_forces(env: ManagerEnv, sensor_cfg: ContactBodies) -> torch.Tensor:
    """Return ``sign(f) log(1 + |f|)`` of the forces on each foot, in N, three columns each."""
    forces = sensor_cfg.net_forces_w.flatten(1)
    return torch.copysign(forces.abs().log1p(), forces)


# Rewards ------------------------------------------------------------------------------------------


def track_linear_velocity(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the velocity of the root's origin, in its own frame.

    The wanted vertical part is 0; ``std`` is in m/s.
    """
    velocity = base_origin_vel(env, asset_cfg)
    return _tracking(env, velocity, command_name, (1.0, 1.0, 0.0), std)


def track_angular_velocity(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the root's angular velocity, in its own frame.

    The wanted rolling and pitching are 0; ``std`` is in rad/s.
    """
    return _tracking(env, base_ang_vel(env, asset_cfg), command_name, (0.0, 0.0, 1.0), std)


def _tracking(
    env: ManagerEnv,
    velocity: torch.Tensor,
    command_name: str,
    commanded: tuple[float, float, float],
    std: float,
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of a velocity, of which only some parts are commanded."""
    key = ("commanded", *commanded)
    if key not in env.constants:
        env.constants[key] = torch.tensor(commanded, device=env.device)
    command = env.command_manager.get_command(command_name)
    return gaussian(torch.addcmul(velocity, command, env.constants[key], value=-1.0), std)


def upright(
    env: ManagerEnv, std: float, asset_cfg: SceneEntity, sensor_cfg: RayCaster | None = None
) -> torch.Tensor:
    """Return ``exp(-t^2 / std^2)`` of a body's tilt ``t``: gravity's horizontal part in its frame.

    Needs ``xquat`` in ``env.sim.data_fields``.

    Args:
        env: The environment.
        std: Width, of a sine.
        asset_cfg: One body.
        sensor_cfg: Points around it, a :class:`RayCasterCfg` of ``env.sensors``; the tilt is then
            relative to the plane of the ground at these points.
    """
    quat = columns(env.sim.data.xquat, asset_cfg.body_ids)[:, 0]
    if sensor_cfg is None:
        up = gravity_in_body(quat)
    else:
        up = quat_apply_inverse(quat, ground_normal(env, sensor_cfg))
    return gaussian(up[:, :2], std)


def variable_posture(
    env: ManagerEnv,
    command_name: str,
    std_standing: dict[str, float],
    std_walking: dict[str, float],
    std_running: dict[str, float],
    walking_threshold: float = 0.5,
    running_threshold: float = 1.5,
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Return ``exp(-mean(error^2 / std^2))`` of joints from their default positions.

    Args:
        env: The environment.
        command_name: The command.
        std_standing: Widths in rad by regular expression, for commands below
            ``walking_threshold``.
        std_walking: The same, up to ``running_threshold``.
        std_running: The same, beyond it.
        walking_threshold: Sum of commanded speed and turning, in m/s and rad/s.
        running_threshold: The same.
        asset_cfg: The joints.
    """
    stds = (std_standing, std_walking, std_running)
    key = ("variable_posture", repr(stds), *asset_cfg.joint_names)
    if key not in env.constants:
        widths = [joint_values(std, asset_cfg.joint_names) for std in stds]
        env.constants[key] = -torch.tensor(widths, device=env.device).square().reciprocal()
    bounds = ("variable_posture", walking_threshold, running_threshold)
    if bounds not in env.constants:
        env.constants[bounds] = torch.tensor(bounds[1:], device=env.device)
    kind = torch.bucketize(_commanded(env, command_name), env.constants[bounds], right=True)
    error = joint_pos_rel(env, asset_cfg)
    return torch.exp((error.square() * env.constants[key][kind]).mean(dim=1))


def body_angular_velocity_penalty(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the squared rolling and pitching velocity of a body, world frame, in rad^2/s^2.

    Needs ``cvel`` in ``env.sim.data_fields``. ``asset_cfg`` names one body.
    """
    return columns(env.sim.data.cvel, asset_cfg.body_ids)[:, 0, :2].square().sum(dim=1)


def angular_momentum_penalty(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the square of a ``<subtreeangmom>`` sensor's reading, in (kg m^2/s)^2."""
    return columns(env.sim.data.sensordata, asset_cfg.sensor_ids).square().sum(dim=1)


def feet_air_time_in_range(
    env: ManagerEnv,
    threshold_min: float,
    threshold_max: float,
    command_name: str,
    command_threshold: float,
    sensor_cfg: ContactBodies,
) -> torch.Tensor:
    """Return the number of feet that have been in the air for a time between two bounds.

    Times in s. Zero where the commanded speed plus turning is at most ``command_threshold``. It is
    mjlab 1.6.0's ``feet_air_time``.
    """
    time = sensor_cfg.current_air_time
    is_swinging = (time > threshold_min) & (time < threshold_max)
    num_swinging = is_swinging.sum(dim=1, dtype=torch.float32)
    return num_swinging * _is_commanded(env, command_name, command_threshold)


def feet_clearance(
    env: ManagerEnv,
    target_height: float,
    command_name: str,
    command_threshold: float,
    feet_cfg: FootSensor,
) -> torch.Tensor:
    """Return feet's distances from ``target_height``, in m, times their speeds, summed over feet.

    Zero where the commanded speed plus turning is at most ``command_threshold``.
    """
    cost = ((feet_cfg.heights - target_height).abs() * feet_cfg.speeds).sum(dim=1)
    return cost * _is_commanded(env, command_name, command_threshold)


def feet_swing_height(
    env: ManagerEnv,
    target_height: float,
    command_name: str,
    command_threshold: float,
    sensor_cfg: ContactBodies,
    feet_cfg: FootSensor,
) -> torch.Tensor:
    """Return ``(peak / target_height - 1)^2`` of swings that end now, summed over feet.

    Zero where the commanded speed plus turning is at most ``command_threshold``.
    """
    error = scaled_square(feet_cfg.landing_heights - target_height, 1.0 / target_height**2)
    cost = (error * sensor_cfg.first_contact).sum(dim=1)
    return cost * _is_commanded(env, command_name, command_threshold)


def feet_slip(
    env: ManagerEnv,
    command_name: str,
    command_threshold: float,
    sensor_cfg: ContactBodies,
    feet_cfg: FootSensor,
) -> torch.Tensor:
    """Return the squared speeds of feet that touch, in m^2/s^2, summed over feet.

    Zero where the commanded speed plus turning is at most ``command_threshold``.
    """
    cost = (feet_cfg.speeds.square() * sensor_cfg.in_contact).sum(dim=1)
    return cost * _is_commanded(env, command_name, command_threshold)


def soft_landing(
    env: ManagerEnv, command_name: str, command_threshold: float, sensor_cfg: ContactBodies
) -> torch.Tensor:
    """Return the forces on feet that touch down now, in N, summed over feet.

    Zero where the commanded speed plus turning is at most ``command_threshold``.
    """
    force = torch.linalg.vector_norm(sensor_cfg.net_forces_w, dim=2)
    cost = (force * sensor_cfg.first_contact).sum(dim=1)
    return cost * _is_commanded(env, command_name, command_threshold)


def _commanded(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the commanded speed plus turning, in m/s and rad/s, ``(num_envs,)``."""
    manager = env.command_manager

    def compute() -> torch.Tensor:
        command = manager.get_command(command_name)
        return torch.linalg.vector_norm(command[:, :2], dim=1) + command[:, 2].abs()

    speed: torch.Tensor = env.once(("speed", command_name), compute, manager.num_changes)
    return speed


def _is_commanded(env: ManagerEnv, command_name: str, threshold: float) -> torch.Tensor:
    """Return whether the commanded speed plus turning exceeds ``threshold``, ``(num_envs,)``."""
    is_commanded: torch.Tensor = env.once(
        ("is_commanded", command_name, threshold),
        lambda: _commanded(env, command_name) > threshold,
        env.command_manager.num_changes,
    )
    return is_commanded
