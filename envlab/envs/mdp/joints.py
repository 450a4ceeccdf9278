"""Penalties and terminations of hinge and slide joints, their limits and efforts: ``(num_envs,)``.

MJCF has no limits of velocities. They are given as ``velocity_limit``, in rad/s or m/s, or by
regular expressions of joint names; None takes the speed at which each joint's DC motor has no
torque left, as in Isaac Lab's robots.

Limits of efforts are ``actuator_forcerange`` and ``jnt_actfrcrange``, and a DC motor's line of
torque over speed. Efforts follow from the latest control and the state after the step, where Isaac
Lab has the state before the last physics step; a control that a delay holds back counts as if it
acted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns, joint_values
from envlab.envs.math import squared_difference
from envlab.envs.mdp.events import soft_joint_limits
from envlab.envs.mdp.observations import joint_pos_rel
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


_ROBOT: Any = SceneEntityCfg("robot")


def joint_torques_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sum of squared actuator forces, in N^2 or N^2 m^2.

    Needs ``actuator_force`` in ``env.sim.data_fields``; forces are those of the last physics step.
    """
    return columns(env.sim.data.actuator_force, asset_cfg.actuator_ids).square().sum(dim=1)


def joint_acc_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sum of squared joint accelerations, in m^2/s^4 or rad^2/s^4.

    An acceleration is the change of velocity in the last physics step over its duration, as in
    Isaac Lab 2.3 (``ArticulationData.joint_acc``). Needs ``qvel`` in ``env.sim.substep_fields``.

    Raises:
        ConfigurationError: If a control step is a single physics step.
    """
    if env.sim.decimation < 2:
        raise ConfigurationError(
            "joint_acc_l2 compares the last two physics steps of a control step, and "
            f"env.decimation is {env.sim.decimation}. Set it to 2 or more, or remove the term."
        )
    # MuJoCo's qacc is another quantity: implicit integrators damp it before they integrate, and its
    # sum of squares was 1.35 times this one on Go2, and 2,000 times on G1's fingers.
    before, after = env.sim.substeps.qvel[:, -2:].unbind(1)
    change = squared_difference(
        columns(after, asset_cfg.qvel_ids), columns(before, asset_cfg.qvel_ids)
    )
    return change.sum(dim=1) / env.sim.physics_dt**2


def joint_pos_limits(
    env: ManagerEnv, soft_limit_factor: float = 0.9, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return joints' distances beyond their soft limits, in m or rad, summed.

    Args:
        env: The environment.
        soft_limit_factor: Share of the range, about its middle, in which joints should stay.
        asset_cfg: The joints.
    """
    low, high = soft_joint_limits(env, soft_limit_factor, asset_cfg)
    positions = columns(env.sim.data.qpos, asset_cfg.qpos_ids)
    return (positions - positions.clamp(low, high)).abs().sum(dim=1)


def stand_still_joint_deviation_l1(
    env: ManagerEnv,
    command_name: str,
    command_threshold: float = 0.06,
    asset_cfg: SceneEntity = _ROBOT,
) -> torch.Tensor:
    """Return ``joint_deviation_l1`` where the commanded speed is below a bound in m/s, else 0.

    It is that of Isaac Lab's tasks of walking.
    """
    command = env.command_manager.get_command(command_name)[:, :2]
    stands = torch.linalg.vector_norm(command, dim=1) < command_threshold
    return joint_deviation_l1(env, asset_cfg) * stands


def posture(
    env: ManagerEnv, std: dict[str, float], asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-mean(error^2 / std^2))`` of joints from their default positions.

    ``std`` has widths in rad or m by regular expression; each joint matches exactly one.
    """
    key = ("posture", repr(std), *asset_cfg.joint_names)
    if key not in env.constants:
        widths = joint_values(std, asset_cfg.joint_names)
        env.constants[key] = torch.tensor(widths, device=env.device)
    error = columns(env.sim.data.qpos, asset_cfg.qpos_ids) - columns(
        env.default_qpos_rows, asset_cfg.qpos_ids
    )
    return torch.exp(-(error / env.constants[key]).square().mean(dim=1))


def joint_deviation_l1(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return joints' distances from their default positions, in m or rad, summed."""
    return torch.linalg.vector_norm(joint_pos_rel(env, asset_cfg), ord=1, dim=1)


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


_FIELDS = ("actuator_gainprm", "actuator_biasprm", "actuator_forcerange")
"""What events may randomise of an actuator's effort."""


def applied_torque_limits(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return by how much the commanded efforts exceed the possible ones, in N m or N, summed."""
    computed, applied = joint_efforts(env, asset_cfg)
    return (applied - computed).abs().sum(dim=1)


def joint_effort_out_of_limit(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return whether the commanded effort of any of the joints exceeds its limit.

    Differences of 1e-5 of the effort count as rounding.
    """
    computed, applied = joint_efforts(env, asset_cfg)
    return (~torch.isclose(computed, applied)).any(dim=1)


def electrical_power_cost(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the mechanical power that actuators put into joints, in W, without what they absorb.

    Needs ``qfrc_actuator`` in ``env.sim.data_fields``.
    """
    efforts = columns(env.sim.data.qfrc_actuator, asset_cfg.qvel_ids)
    return (efforts * columns(env.sim.data.qvel, asset_cfg.qvel_ids)).clamp(min=0.0).sum(dim=1)


def joint_efforts(env: ManagerEnv, asset_cfg: SceneEntity) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the commanded efforts and the possible ones, in N m or N.

    They are those of the joints' actuators, ``(num_envs, num_actuators)`` each.
    """
    key = ("efforts", *asset_cfg.joint_names)
    if key not in env.constants:
        env.constants[key], env.constants["places", key] = _table(env, asset_cfg)
    gear, ctrl_low, ctrl_high = env.constants[key][:3]
    position_ids, velocity_ids = env.constants["places", key]
    drive = _drive(env, key, asset_cfg.actuator_ids)
    length = gear * env.sim.data.qpos[:, position_ids]
    speed = gear * env.sim.data.qvel[:, velocity_ids]
    ctrl = columns(env.sim.ctrl, asset_cfg.actuator_ids).clamp(ctrl_low, ctrl_high)
    computed = drive.gain * ctrl + drive.offset + drive.stiffness * length + drive.damping * speed
    lost = drive.drag * speed
    possible = torch.minimum(torch.maximum(computed, -drive.stall - lost), drive.stall - lost)
    return gear * computed, gear * possible.clamp(drive.low, drive.high)


class _Drive(NamedTuple):
    """``gain ctrl + offset + stiffness length + damping speed``, and its limits.

    Each is ``(num_actuators,)``, or ``(num_envs, num_actuators)`` where events randomise it. A DC
    motor has the torque ``stall`` at standstill and loses ``drag`` by speed.
    """

    gain: torch.Tensor
    offset: torch.Tensor
    stiffness: torch.Tensor
    damping: torch.Tensor
    stall: torch.Tensor
    drag: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor


def _drive(env: ManagerEnv, key: tuple[str, ...], ids: slice | torch.Tensor) -> _Drive:
    """Return the drives of some actuators, from the fields that are randomised if any are."""
    randomised = vars(env.sim.params)
    is_fixed = not any(name in randomised for name in _FIELDS)
    if is_fixed and ("drive", key) in env.constants:
        return _Drive(*env.constants["drive", key])
    prm, bias, bounds = (
        columns(values, ids)
        if (values := randomised.get(name)) is not None
        else env.nominal(name)[ids]
        for name in _FIELDS
    )
    rows = env.constants[key][3:]
    low, high = rows[:2]
    limited, affine, motor, by_position, by_velocity = rows[2:].bool()
    kp, kd = prm[..., 4], prm[..., 6]  # a DC motor's controller; see _table()
    resistance, constant, voltage = (prm[..., i] for i in (0, 1, 7))
    by = torch.where(by_position, kp, torch.where(by_velocity, kd, 1.0))
    offset, stiffness, damping = (torch.where(affine, bias[..., i], 0.0) for i in range(3))
    drive = _Drive(
        gain=torch.where(motor, by, prm[..., 0]),
        offset=offset,
        stiffness=torch.where(by_position, -kp, stiffness),
        damping=torch.where(motor, -kd, damping),
        stall=torch.where(motor, constant * voltage / resistance, torch.inf),
        drag=torch.where(motor, constant.square() / resistance, 0.0),
        low=torch.maximum(low, torch.where(limited, bounds[..., 0], -torch.inf)),
        high=torch.minimum(high, torch.where(limited, bounds[..., 1], torch.inf)),
    )
    if is_fixed:
        env.constants["drive", key] = torch.stack(drive)
    return drive


def _table(env: ManagerEnv, asset_cfg: SceneEntity) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what no event changes of the joints' actuators.

    Returns:
        Gears, bounds of the control, bounds of the force by the joint's limit, and whether the
        force is limited, its bias affine, its motor a DC motor, and the control of that a position
        or a velocity: ``(10, num_actuators)``. And the joints' places in ``qpos`` and ``qvel``,
        ``(2, num_actuators)``.

    Raises:
        ConfigurationError: For an actuator whose force depends on other quantities.
    """
    model, kinds = env.sim.model, mujoco.mjtGain
    joints = [model.joint(name).id for name in asset_cfg.joint_names]
    ids = np.arange(model.nu)[_to_numpy(asset_cfg.actuator_ids)]
    rows, places = [], []
    for i in ids:
        joint = int(model.actuator_trnid[i, 0])
        assert joint in joints
        spec, motor = mujoco.mjtCtrlInput, model.actuator_gaintype[i] == kinds.mjGAIN_DCMOTOR
        known = (int(spec.mjINPUT_POS), int(spec.mjINPUT_VEL), int(spec.mjINPUT_FF))
        affine = model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE
        is_plain = model.actuator_gaintype[i] == kinds.mjGAIN_FIXED and (
            affine or model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE
        )
        if model.actuator_actnum[i] or not (
            is_plain or (motor and model.actuator_ctrlspec[i] in known)
        ):
            raise ConfigurationError(
                f"The commanded effort of the actuator {model.actuator(i).name!r} is not known "
                "from its control, position and velocity alone. Name joints in asset_cfg that have "
                "motors, position or velocity actuators, or DC motors without a state."
            )
        gear = model.actuator_gear[i, 0]
        ctrl = _bounds(model.actuator_ctrlrange[i], bool(model.actuator_ctrllimited[i]))
        effort = _bounds(model.jnt_actfrcrange[joint], bool(model.jnt_actfrclimited[joint]))
        inputs = (motor and model.actuator_ctrlspec[i] == kind for kind in known[:2])
        limited = model.actuator_forcelimited[i]
        rows.append([gear, *ctrl, *sorted(effort / gear), limited, affine, motor, *inputs])
        places.append([model.jnt_qposadr[joint], model.jnt_dofadr[joint]])
    if not rows:
        raise ConfigurationError(
            f"None of the joints {', '.join(asset_cfg.joint_names) or '(none)'} has an actuator. "
            "Name others in asset_cfg."
        )
    table = torch.tensor(np.array(rows, dtype=np.float32).T, device=env.device)
    return table, torch.tensor(np.array(places, dtype=np.int64).T, device=env.device)


def _bounds(values: np.ndarray, is_limited: bool) -> np.ndarray:
    return values if is_limited else np.array([-np.inf, np.inf])


def _to_numpy(ids: slice | torch.Tensor) -> slice | np.ndarray:
    return ids if isinstance(ids, slice) else ids.cpu().numpy()
