"""Observation terms; each returns ``(num_envs, k)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns
from envlab.envs.mdp.events import joint_limits

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
        env.constants[key] = torch.stack((-(low + high), high - low))
    centres, ranges = env.constants[key]
    found: torch.Tensor = env.once(
        key,
        lambda: (
            torch.add(centres, columns(env.sim.data.qpos, asset_cfg.qpos_ids), alpha=2.0) / ranges
        ),
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
