"""Limits of joints' positions and velocities: penalties and terminations.

MJCF has no limits of velocities. They are given as ``velocity_limit``, in rad/s or m/s, or by
regular expressions of joint names; None takes the speed at which each joint's DC motor has no
torque left, as in Isaac Lab's robots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns, joint_values
from envlab.envs.mdp.events import soft_joint_limits
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")
VelocityLimit = float | dict[str, float] | None


def joint_pos_out_of_limit(
    env: ManagerEnv, soft_limit_factor: float = 0.9, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether any of the joints is outside of its soft limits.

    ``soft_limit_factor`` is the share of the range, about its middle, as in ``joint_pos_limits``;
    in Isaac Lab it belongs to the robot.
    """
    low, high = soft_joint_limits(env, soft_limit_factor, asset_cfg)
    positions = columns(env.sim.data.qpos, asset_cfg.qpos_ids)
    return ((positions < low) | (positions > high)).any(dim=1)


def joint_vel_limits(
    env: ManagerEnv,
    soft_ratio: float,
    velocity_limit: VelocityLimit = None,
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Return by how much speeds exceed ``soft_ratio`` of their limits, summed; each at most 1."""
    limits = _velocity_limits(env, velocity_limit, asset_cfg)
    speeds = columns(env.sim.data.qvel, asset_cfg.qvel_ids).abs()
    return (speeds - limits * soft_ratio).clamp(0.0, 1.0).sum(dim=1)


def joint_vel_out_of_limit(
    env: ManagerEnv, velocity_limit: VelocityLimit = None, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether any of the joints is faster than its limit."""
    limits = _velocity_limits(env, velocity_limit, asset_cfg)
    return (columns(env.sim.data.qvel, asset_cfg.qvel_ids).abs() > limits).any(dim=1)


def joint_vel_out_of_manual_limit(
    env: ManagerEnv, max_velocity: float, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether any of the joints is faster than ``max_velocity``, in rad/s or m/s."""
    return (columns(env.sim.data.qvel, asset_cfg.qvel_ids).abs() > max_velocity).any(dim=1)


def _velocity_limits(env: ManagerEnv, given: VelocityLimit, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return joints' velocity limits, ``(num_joints,)``."""
    names = asset_cfg.joint_names
    key = ("velocity_limits", repr(given), *names)
    if key not in env.constants:
        if given is None:
            limits = _no_load_speeds(env.sim.model, names)
        elif isinstance(given, dict):
            limits = joint_values(given, names)
        else:
            limits = [float(given)] * len(names)
        env.constants[key] = torch.tensor(limits, device=env.device)
    return env.constants[key]


def _no_load_speeds(model: mujoco.MjModel, joint_names: list[str]) -> list[float]:
    """Return the speeds at which joints' DC motors have no torque left: voltage over constant.

    Raises:
        ConfigurationError: For a joint without a DC motor.
    """
    speeds = {}
    for i in range(model.nu):
        if model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_DCMOTOR:
            constant, voltage = model.actuator_gainprm[i, [1, 7]]
            joint = model.joint(int(model.actuator_trnid[i, 0])).name
            speeds[joint] = float(voltage / constant / abs(model.actuator_gear[i, 0]))
    missing = [name for name in joint_names if name not in speeds]
    if missing:
        raise ConfigurationError(
            f"The joint {missing[0]!r} has no limit of its velocity: MJCF has none, and its "
            "actuator is no DC motor. Give the term a velocity_limit, in rad/s or m/s or by joint, "
            "or name other joints in asset_cfg."
        )
    return [speeds[name] for name in joint_names]
