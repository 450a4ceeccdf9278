"""Terms over a :class:`envlab.envs.contact_sensor.ContactSensor`; each returns ``(num_envs,)``.

A ``sensor_cfg`` names the sensor and its bodies: ``SceneEntityCfg("contact_forces",
body_names=".*_foot")``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from envlab.envs.contact_sensor import ContactBodies
from envlab.envs.entities import SceneEntity, columns
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_COMMAND_MIN = 0.1
"""Commanded speed, in m/s, below which a robot should not step."""


def illegal_contact(env: ManagerEnv, threshold: float, sensor_cfg: ContactBodies) -> torch.Tensor:
    """Return whether the force on any of the bodies is above ``threshold``, in N."""
    return _any(sensor_cfg.force_norms > threshold)


def self_collision_cost(
    env: ManagerEnv, force_threshold: float, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return the physics steps of a control step in which a robot hit itself; mjlab 1.6.0's term.

    Needs ``sensordata`` in ``env.sim.substep_fields``.

    Args:
        env: The environment.
        force_threshold: Force of a contact that counts, in N.
        asset_cfg: Sensors of the model that measure forces of the robot on itself, such as
            ``<contact subtree1="pelvis" subtree2="pelvis" num="1" data="force" reduce="none"/>``,
            or of parts of it on the world.
    """
    return _collides(env, force_threshold, asset_cfg).sum(dim=1, dtype=torch.float32)


def illegal_collision(
    env: ManagerEnv, force_threshold: float, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return whether a sensor measured a collision in any physics step of a control step.

    It is mjlab 1.6.0's ``illegal_contact``, for the steps that :func:`self_collision_cost` counts.
    """
    return _collides(env, force_threshold, asset_cfg).any(dim=1)


def undesired_contacts(
    env: ManagerEnv, threshold: float, sensor_cfg: ContactBodies
) -> torch.Tensor:
    """Return the number of bodies on which the force is above ``threshold``, in N."""
    return (sensor_cfg.force_norms > threshold).sum(dim=1, dtype=torch.float32)


def feet_air_time(
    env: ManagerEnv, command_name: str, sensor_cfg: ContactBodies, threshold: float
) -> torch.Tensor:
    """Return by how much steps that end now exceed ``threshold``, in s, summed over feet.

    Zero where the commanded velocity is zero.
    """
    longer = (sensor_cfg.last_air_time - threshold) * sensor_cfg.first_contact
    return longer.sum(dim=1) * _is_to_move(env, command_name)


def feet_air_time_positive_biped(
    env: ManagerEnv, command_name: str, threshold: float, sensor_cfg: ContactBodies
) -> torch.Tensor:
    """Return how long only one foot has been on the ground, in s, at most ``threshold``.

    It is the shorter of one foot's time on the ground and the other's in the air. Zero where the
    commanded velocity is zero.
    """
    standing = sensor_cfg.current_contact_time
    touches = standing > 0.0
    lasting = torch.where(touches, standing, sensor_cfg.current_air_time).amin(dim=1)
    on_one_foot = touches.sum(dim=1) == 1
    return lasting.clamp(max=threshold) * (on_one_foot & _is_to_move(env, command_name))


def feet_slide(env: ManagerEnv, sensor_cfg: ContactBodies, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the horizontal speed of feet that touch, in m/s, summed over feet.

    Needs ``cvel``, ``xipos`` and ``subtree_com`` in ``env.sim.data_fields``.

    Args:
        env: The environment.
        sensor_cfg: The feet, in the contact sensor.
        asset_cfg: The same bodies, in the same order; speeds are those of their centres of mass.

    Raises:
        ConfigurationError: If the two name different bodies.
    """
    if sensor_cfg.body_names != asset_cfg.body_names:
        raise ConfigurationError(
            f"feet_slide has the bodies {', '.join(sensor_cfg.body_names)} in sensor_cfg, but "
            f"{', '.join(asset_cfg.body_names)} in asset_cfg; name the same ones, in the order of "
            "the model."
        )
    return (sliding_speeds(env, asset_cfg) * sensor_cfg.in_contact).sum(dim=1)


def sliding_speeds(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the horizontal speeds of bodies' centres of mass, in m/s, ``(num_envs, num_bodies)``.

    Needs ``cvel``, ``xipos`` and ``subtree_com`` in ``env.sim.data_fields``.
    """
    data = env.sim.data
    # cvel is the velocity of the body-fixed frame now at the tree's centre of mass.
    arm = data.xipos[:, asset_cfg.body_ids] - data.subtree_com[:, asset_cfg.root_body, None]
    spatial = data.cvel[:, asset_cfg.body_ids]
    velocity = spatial[..., 3:] + torch.linalg.cross(spatial[..., :3], arm)
    return torch.linalg.vector_norm(velocity[..., :2], dim=2)


def _collides(env: ManagerEnv, force_threshold: float, sensors: SceneEntity) -> torch.Tensor:
    """Return whether a sensor's force exceeds the threshold, by physics step, ``(num_envs, n)``."""
    forces = columns(env.sim.substeps.sensordata.movedim(1, 2), sensors.sensor_ids)
    norms = torch.linalg.vector_norm(forces.unflatten(1, (-1, 3)), dim=2)
    return _any(norms > force_threshold)


def _any(values: torch.Tensor) -> torch.Tensor:
    """Return whether any of ``(num_envs, k, ...)`` is true; for ``k = 1``, a view."""
    return values.squeeze(1) if values.shape[1] == 1 else values.any(dim=1)


def _is_to_move(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return whether the commanded horizontal speed is above 0.1 m/s, bool ``(num_envs,)``."""
    command = env.command_manager.get_command(command_name)[:, :2]
    return torch.linalg.vector_norm(command, dim=1) > _COMMAND_MIN


def desired_contacts(
    env: ManagerEnv, sensor_cfg: ContactBodies, threshold: float = 1.0
) -> torch.Tensor:
    """Return 1 where the force on none of the bodies is above ``threshold``, in N, else 0."""
    return (sensor_cfg.force_norms <= threshold).all(dim=1).float()


def contact_forces(env: ManagerEnv, threshold: float, sensor_cfg: ContactBodies) -> torch.Tensor:
    """Return by how much forces on bodies exceed ``threshold``, in N, summed over bodies."""
    return (sensor_cfg.force_norms - threshold).clamp(min=0.0).sum(dim=1)
