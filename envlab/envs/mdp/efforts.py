"""Efforts that actuators are commanded, and those that their limits allow; each ``(num_envs,)``.

Limits are ``actuator_forcerange`` and ``jnt_actfrcrange``, and a DC motor's line of torque over
speed. Both efforts follow from the latest control and the state after the step, where Isaac Lab has
the state before the last physics step; a control that a delay holds back counts as if it acted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")
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
