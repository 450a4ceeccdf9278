"""Rewards of Isaac Lab 2.3.2's Spot: tracking, a gait, and penalties that are norms, not squares.

Each returns ``(num_envs,)``. Commands are those of ``base_velocity``, (vx, vy, wz) in m/s and
rad/s. A robot should move if its command is not zero, or if it moves anyway. A ``sensor_cfg``
names feet in the contact sensor, an ``asset_cfg`` the robot, or the same feet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.contact_sensor import ContactBodies
from envlab.envs.entities import SceneEntity
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


def air_time_reward(
    env: ManagerEnv,
    mode_time: float,
    velocity_threshold: float,
    sensor_cfg: ContactBodies,
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Return the feet's times in the air or on the ground, in s, summed over feet.

    Zero for a foot beyond ``mode_time`` s. If the robot should stand, it is the time on the
    ground minus that in the air, within ``mode_time``.
    """
    in_air, on_ground = sensor_cfg.current_air_time, sensor_cfg.current_contact_time
    longest = torch.maximum(in_air, on_ground)
    stepping = torch.where(longest < mode_time, longest, 0.0)
    standing = (on_ground - in_air).clamp(-mode_time, mode_time)
    moves = _is_to_move(env, velocity_threshold, asset_cfg).unsqueeze(1)
    return torch.where(moves, stepping, standing).sum(dim=1)


def base_angular_velocity_reward(
    env: ManagerEnv, std: float, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-|error| / std)`` of the turning velocity about the root's own axis."""
    error = _command(env)[:, 2] - mdp.base_ang_vel(env, asset_cfg)[:, 2]
    return torch.exp(-error.abs() / std)


def base_linear_velocity_reward(
    env: ManagerEnv,
    std: float,
    ramp_at_vel: float = 1.0,
    ramp_rate: float = 0.5,
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Return ``exp(-|error| / std)`` of the horizontal velocity in the root's frame.

    It is multiplied by 1 plus ``ramp_rate`` for each m/s that is commanded beyond ``ramp_at_vel``.
    """
    command = _command(env)[:, :2]
    error = torch.linalg.vector_norm(command - mdp.base_lin_vel(env, asset_cfg)[:, :2], dim=1)
    speed = torch.linalg.vector_norm(command, dim=1)
    return torch.exp(-error / std) * (1.0 + ramp_rate * (speed - ramp_at_vel)).clamp(min=1.0)


def foot_clearance_reward(
    env: ManagerEnv, std: float, tanh_mult: float, target_height: float, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return ``exp(-sum / std)`` of squared errors of the feet's heights, weighted by their speeds.

    Heights are those of the feet's frames in the world, in m; weights are the hyperbolic tangent
    of ``tanh_mult`` times the horizontal speed.
    """
    heights = env.sim.data.xpos[:, asset_cfg.body_ids, 2]
    weights = torch.tanh(tanh_mult * mdp.sliding_speeds(env, asset_cfg))
    return torch.exp(((heights - target_height).square() * weights).sum(dim=1) / -std)


def gait_reward(
    env: ManagerEnv,
    std: float,
    max_err: float,
    velocity_threshold: float,
    synced_feet_pair_names: list[list[str]],
    sensor_cfg: ContactBodies,
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Return how well two pairs of feet step together, and the pairs alternate, 0 to 1.

    Isaac Lab's ``GaitReward``: a product over pairs of feet of ``exp(-error / std)``, whose error
    is the squared difference of times in the air, and of those on the ground, each at most
    ``max_err^2``; for feet that take turns, of one's time in the air and the other's on the ground.
    Zero if the robot should stand.

    Raises:
        ConfigurationError: If there are not two pairs of feet of the sensor.
    """
    (a, b), (c, d) = _pairs(synced_feet_pair_names, sensor_cfg)
    in_air, on_ground = sensor_cfg.current_air_time, sensor_cfg.current_contact_time

    def error(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left - right).square().clamp(max=max_err**2)

    total = torch.zeros_like(in_air[:, 0])
    for first, second in ((a, b), (c, d)):
        total += error(in_air[:, first], in_air[:, second])
        total += error(on_ground[:, first], on_ground[:, second])
    for first, second in ((a, c), (b, d), (a, d), (c, b)):
        total += error(in_air[:, first], on_ground[:, second])
        total += error(on_ground[:, first], in_air[:, second])
    return torch.exp(-total / std) * _is_to_move(env, velocity_threshold, asset_cfg)


def action_smoothness_penalty(env: ManagerEnv) -> torch.Tensor:
    """Return the length of the change of the action since the step before."""
    return mdp.action_rate_l2(env).sqrt()


def air_time_variance_penalty(env: ManagerEnv, sensor_cfg: ContactBodies) -> torch.Tensor:
    """Return the variance over feet of the last times in the air and on the ground, in s^2.

    Times count up to 0.5 s.
    """
    in_air, on_ground = sensor_cfg.last_air_time, sensor_cfg.last_contact_time
    return in_air.clamp(max=0.5).var(dim=1) + on_ground.clamp(max=0.5).var(dim=1)


def base_motion_penalty(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return 0.8 of the squared vertical velocity plus 0.2 of rolling and pitching, absolute."""
    vertical = mdp.lin_vel_z_l2(env, asset_cfg)
    return 0.8 * vertical + 0.2 * mdp.base_ang_vel(env, asset_cfg)[:, :2].abs().sum(dim=1)


def base_orientation_penalty(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sine of the root's tilt."""
    return mdp.flat_orientation_l2(env, asset_cfg).sqrt()


def foot_slip_penalty(
    env: ManagerEnv, threshold: float, sensor_cfg: ContactBodies, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return the horizontal speeds, in m/s, of feet on which more than ``threshold`` N act."""
    return (mdp.sliding_speeds(env, asset_cfg) * (sensor_cfg.force_norms > threshold)).sum(dim=1)


def joint_acceleration_penalty(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the length of the joints' accelerations, in rad/s^2."""
    return mdp.joint_acc_l2(env, asset_cfg).sqrt()


def joint_position_penalty(
    env: ManagerEnv,
    stand_still_scale: float,
    velocity_threshold: float,
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Return the norm of joints' distances from their default positions, in rad.

    It is multiplied by ``stand_still_scale`` if the robot should stand.
    """
    deviation = torch.linalg.vector_norm(mdp.joint_pos_rel(env, asset_cfg), dim=1)
    moves = _is_to_move(env, velocity_threshold, asset_cfg)
    return torch.where(moves, deviation, stand_still_scale * deviation)


def joint_torques_penalty(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the length of the joints' torques, in N m."""
    return mdp.joint_torques_l2(env, asset_cfg).sqrt()


def joint_velocity_penalty(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the length of the joints' velocities, in rad/s."""
    return mdp.joint_vel_l2(env, asset_cfg).sqrt()


def _command(env: ManagerEnv) -> torch.Tensor:
    return env.command_manager.get_command("base_velocity")


def _is_to_move(env: ManagerEnv, velocity_threshold: float, asset: SceneEntity) -> torch.Tensor:
    """Return whether the command is not zero, or the robot is faster than a threshold in m/s."""
    speed = torch.linalg.vector_norm(mdp.base_lin_vel(env, asset)[:, :2], dim=1)
    return (_command(env) != 0.0).any(dim=1) | (speed > velocity_threshold)


def _pairs(names: list[list[str]], feet: ContactBodies) -> list[list[int]]:
    """Return the indices of two pairs of feet among those of a sensor."""
    unknown = [name for pair in names for name in pair if name not in feet.body_names]
    if [len(pair) for pair in names] != [2, 2] or unknown:
        raise ConfigurationError(
            f"synced_feet_pair_names is {names}, but must be two pairs of these feet: "
            f"{', '.join(feet.body_names)}."
        )
    return [[feet.body_names.index(name) for name in pair] for pair in names]
