"""Randomisation of a robot: friction, gains, effort limits; masses, centres and placements.

Draws start from the model's own values, and are made per joint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import mujoco
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")

Range = tuple[float, float]
Operation = Literal["add", "scale", "abs"]
Distribution = Literal["uniform", "log_uniform", "gaussian"]

GainSlot = tuple[str, int, int, float]
"""Place of a gain in the model: field, actuator, column, and sign."""


def randomize_actuator_gains(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    stiffness_distribution_params: Range | None = None,
    damping_distribution_params: Range | None = None,
    operation: Operation = "abs",
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Change stiffness (N m/rad) and damping (N m s/rad) of position, velocity and DC motors.

    Needs ``actuator_gainprm`` and ``actuator_biasprm`` in ``env.sim.model_fields``.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        stiffness_distribution_params: Bounds of the draw (``gaussian``: mean and deviation); null:
            no change.
        damping_distribution_params: The same for damping.
        operation: Use of the draw: add to the model's value, multiply it, or replace it.
        distribution: How to draw.
        asset_cfg: The joints whose actuators are meant.

    Raises:
        ConfigurationError: If an actuator has no such gain.
    """
    actuators = _actuator_list(env, asset_cfg)
    for gain, bounds in (
        ("stiffness", stiffness_distribution_params),
        ("damping", damping_distribution_params),
    ):
        if bounds is None:
            continue
        slots = [_slots(env.sim.model, actuator, gain) for actuator in actuators]
        drawn = draw(stream, distribution, bounds, len(slots), mask)
        for field in ("actuator_gainprm", "actuator_biasprm"):
            _write_gains(env, mask, field, slots, drawn, operation)
    env.sim.apply_params(mask)


def randomize_joint_parameters(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    friction_distribution_params: Range | None = None,
    armature_distribution_params: Range | None = None,
    operation: Operation = "abs",
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Change dry friction (N m or N) and armature (kg m^2 or kg) of joints.

    Needs ``dof_frictionloss`` or ``dof_armature`` in ``env.sim.model_fields``. The arguments are
    those of :func:`randomize_actuator_gains`.
    """
    ids = asset_cfg.qvel_ids
    rows = mask.unsqueeze(1)
    for field, bounds in (
        ("dof_frictionloss", friction_distribution_params),
        ("dof_armature", armature_distribution_params),
    ):
        if bounds is None:
            continue
        nominal, values = env.nominal(field)[ids], env.sim.params[field]
        drawn = draw(stream, distribution, bounds, len(nominal), mask)
        changed = combine(nominal, drawn, operation).clamp(min=0.0)
        values[:, ids] = torch.where(rows, changed, values[:, ids])
    env.sim.apply_params(mask)


def draw(
    stream: RandomStream, distribution: Distribution, bounds: Range, num: int, mask: torch.Tensor
) -> torch.Tensor:
    """Return draws, ``(num_envs, num)``, of which only the rows of ``mask`` are valid.

    Raises:
        ConfigurationError: For an unknown distribution, or bounds that have no logarithm.
    """
    if distribution == "uniform":
        return stream.uniform(*bounds, num, mask)
    if distribution == "gaussian":
        return stream.normal(*bounds, num)
    if distribution != "log_uniform":
        raise ConfigurationError(
            f"A random distribution is {distribution!r}, but must be uniform, log_uniform or "
            "gaussian."
        )
    if not 0.0 < bounds[0] <= bounds[1]:
        raise ConfigurationError(
            f"The bounds {list(bounds)} of a log_uniform distribution must be greater than 0."
        )
    return stream.uniform(math.log(bounds[0]), math.log(bounds[1]), num, mask).exp()


def combine(nominal: torch.Tensor, drawn: torch.Tensor, operation: Operation) -> torch.Tensor:
    """Return model values changed by draws.

    Raises:
        ConfigurationError: For an unknown operation.
    """
    if operation == "add":
        return nominal + drawn
    if operation == "scale":
        return nominal * drawn
    if operation == "abs":
        return drawn
    raise ConfigurationError(f"An operation is {operation!r}, but must be add, scale or abs.")


def _actuator_list(env: ManagerEnv, asset_cfg: SceneEntity) -> list[int]:
    """Return the actuators of the joints of an entity, on the host."""
    model = env.sim.model
    joints = {model.joint(name).id for name in asset_cfg.joint_names}
    return [
        i
        for i in range(model.nactuator)
        if model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
        and int(model.actuator_trnid[i, 0]) in joints
    ]


def _slots(model: mujoco.MjModel, actuator: int, gain: str) -> list[GainSlot]:
    """Return the places of an actuator's gain: MuJoCo's force is ``gain * ctrl + bias``."""
    kind = model.actuator_gaintype[actuator]
    prm = model.actuator_biasprm[actuator]
    if kind == mujoco.mjtGain.mjGAIN_DCMOTOR:
        return [("actuator_gainprm", actuator, {"stiffness": 4, "damping": 6}[gain], 1.0)]
    is_affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    if is_affine and prm[1] != 0.0:  # position: kp (u - q) - kd v
        if gain == "damping":
            return [("actuator_biasprm", actuator, 2, -1.0)]
        return [("actuator_gainprm", actuator, 0, 1.0), ("actuator_biasprm", actuator, 1, -1.0)]
    if is_affine and gain == "damping":  # velocity: kd (u - v)
        return [("actuator_gainprm", actuator, 0, 1.0), ("actuator_biasprm", actuator, 2, -1.0)]
    raise ConfigurationError(
        f"randomize_actuator_gains is to change the {gain} of the actuator "
        f"{model.actuator(actuator).name!r}, which has none. Name other joints in asset_cfg."
    )


def _write_gains(
    env: ManagerEnv,
    mask: torch.Tensor,
    field: str,
    slots: Sequence[Sequence[GainSlot]],
    drawn: torch.Tensor,
    operation: Operation,
) -> None:
    """Write changed gains to one model field, ``(num_envs, num_actuators, 10)``."""
    found = [
        (i, actuator, column, sign)
        for i, own in enumerate(slots)
        for name, actuator, column, sign in own
        if name == field
    ]
    if not found:
        return
    key = ("gains", field, *found)
    if key not in env.constants:
        env.constants[key] = torch.tensor(found, dtype=torch.float32, device=env.device).T
    table = env.constants[key]
    source, actuators, columns = table[:3].long()
    sign = table[3]
    nominal = env.nominal(field)[actuators, columns] * sign
    values = env.sim.params[field]
    changed = combine(nominal, drawn[:, source], operation).clamp(min=0.0) * sign
    kept = values[:, actuators, columns]
    values[:, actuators, columns] = torch.where(mask.unsqueeze(1), changed, kept)


def randomize_rigid_body_material(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    friction_range: tuple[float, float],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Draw a coefficient of sliding friction for each environment, the same for all named geoms.

    Needs ``geom_friction`` in ``env.sim.model_fields``. A contact has the friction of the geom of
    higher ``priority`` in the MJCF, else the larger of the two. PhysX has a static and a dynamic
    coefficient, MuJoCo only one: a range between the two replaces both.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        friction_range: Bounds of the coefficient.
        asset_cfg: The geoms.
    """
    randomize_geom_friction(env, mask, stream, friction_range, axis=0, asset_cfg=asset_cfg)


def randomize_geom_friction(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    friction_range: tuple[float, float],
    axis: int,
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Draw one of MuJoCo's coefficients for each environment, the same for all named geoms.

    Needs ``geom_friction`` in ``env.sim.model_fields``. mjlab 1.6.0's ``dr.geom_friction`` with
    ``shared_random``.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        friction_range: Bounds of the coefficient.
        axis: 0 for sliding, 1 for spinning (in m), 2 for rolling (in m).
        distribution: ``uniform`` or ``log_uniform``.
        asset_cfg: The geoms.

    Raises:
        ConfigurationError: For another axis or distribution.
    """
    if axis not in (0, 1, 2):
        raise ConfigurationError(
            f"A friction's axis is {axis!r}, but must be 0 (sliding), 1 (spinning) or 2 (rolling)."
        )
    drawn = draw(stream, distribution, friction_range, 1, mask)
    coefficients = env.sim.params.geom_friction[:, :, axis]
    ids = asset_cfg.geom_ids
    coefficients[:, ids] = torch.where(mask.unsqueeze(1), drawn, coefficients[:, ids])
    env.sim.apply_params(mask)


def randomize_rigid_body_com(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    com_range: dict[str, tuple[float, float]],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Move the centres of mass of bodies, always from the model's own, all by the same draw.

    Needs ``body_ipos`` in ``env.sim.model_fields``.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        com_range: Bounds of ``x``, ``y`` and ``z`` in m, in the bodies' frames.
        asset_cfg: The bodies.

    Raises:
        ConfigurationError: For any other name.
    """
    for name in com_range:
        if name not in ("x", "y", "z"):
            raise ConfigurationError(f"com_range has the key {name!r}, but its keys are x, y, z.")
    drawn = stream.ranges([com_range.get(name, (0.0, 0.0)) for name in ("x", "y", "z")], mask)
    ids = asset_cfg.body_ids
    centres = env.sim.params.body_ipos
    moved = env.nominal("body_ipos")[ids] + drawn.unsqueeze(1)
    centres[:, ids] = torch.where(mask[:, None, None], moved, centres[:, ids])
    env.sim.apply_params(mask)


def randomize_encoder_bias(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    bias_range: tuple[float, float],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Give each joint's encoder a constant error; mjlab 1.6.0's ``dr.encoder_bias``.

    The bias is added to the measurement, ``joint_pos_rel(biased=True)``, and subtracted from the
    target of a position action, which the joint follows by the same encoder.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        bias_range: Bounds of the bias, in rad or m.
        asset_cfg: The joints.
    """
    if env.encoder_bias is None:
        env.encoder_bias = torch.zeros_like(env.default_qpos_rows)
    drawn = stream.uniform(*bias_range, len(asset_cfg.joint_names), mask)
    ids = asset_cfg.qpos_ids
    bias = env.encoder_bias[:, ids]
    env.encoder_bias[:, ids] = torch.where(mask.unsqueeze(1), drawn, bias)
