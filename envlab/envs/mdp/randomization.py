"""Randomisation of robots and scenes under Isaac Lab's names.

Draws start from the model's own values. The fields that a term changes are added to
``env.sim.model_fields`` automatically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.managers.event import requires_model_fields
from envlab.envs.mdp.model_field import (
    Distribution,
    Operation,
    Range,
    combine,
    draw,
    randomize_model_field,
    rows_of_field,
    write,
)
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv

_ROBOT: Any = SceneEntityCfg("robot")

GainSlot = tuple[str, int, int, float]
"""Place of a gain in the model: field, actuator, column, and sign."""


def _fields_by_param(**fields: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """Return a function of a term's parameters: the fields of those that are given."""
    return lambda params: tuple(
        dict.fromkeys(field for name, field in fields.items() if params.get(name) is not None)
    )


@requires_model_fields("actuator_gainprm", "actuator_biasprm")
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

    Those in torch are changed alike; networks and functions have neither.

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
        drawn = draw(env, stream, distribution, [bounds] * len(slots), mask)
        for field in ("actuator_gainprm", "actuator_biasprm"):
            _write_gains(env, mask, field, slots, drawn, operation)
    env.sim.apply_params(mask)


@requires_model_fields(
    given=_fields_by_param(
        friction_distribution_params="dof_frictionloss",
        armature_distribution_params="dof_armature",
        lower_limit_distribution_params="jnt_range",
        upper_limit_distribution_params="jnt_range",
    )
)
def randomize_joint_parameters(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    friction_distribution_params: Range | None = None,
    armature_distribution_params: Range | None = None,
    operation: Operation = "abs",
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
    lower_limit_distribution_params: Range | None = None,
    upper_limit_distribution_params: Range | None = None,
) -> None:
    """Change dry friction (N m or N), armature (kg m^2 or kg) and limits (rad or m) of joints.

    The arguments are those of :func:`randomize_actuator_gains`.
    """
    changes: list[tuple[str, int, Range | None]] = [
        ("dof_frictionloss", 0, friction_distribution_params),
        ("dof_armature", 0, armature_distribution_params),
        ("jnt_range", 0, lower_limit_distribution_params),
        ("jnt_range", 1, upper_limit_distribution_params),
    ]
    _change(env, mask, stream, changes, operation, distribution, asset_cfg)


def _change(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    changes: Sequence[tuple[str, int, Range | None]],
    operation: Operation,
    distribution: Distribution,
    asset_cfg: SceneEntity,
) -> None:
    """Change columns of fields, those with a range."""
    for field, column, bounds in changes:
        if bounds is not None:
            randomize_model_field(
                env,
                mask,
                stream,
                field,
                bounds,
                distribution,
                operation,
                (column,),
                False,
                asset_cfg,
            )


@requires_model_fields(
    given=_fields_by_param(
        stiffness_distribution_params="tendon_stiffness",
        damping_distribution_params="tendon_damping",
        lower_limit_distribution_params="tendon_range",
        upper_limit_distribution_params="tendon_range",
        rest_length_distribution_params="tendon_lengthspring",
    )
)
def randomize_fixed_tendon_parameters(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    stiffness_distribution_params: Range | None = None,
    damping_distribution_params: Range | None = None,
    lower_limit_distribution_params: Range | None = None,
    upper_limit_distribution_params: Range | None = None,
    rest_length_distribution_params: Range | None = None,
    operation: Operation = "abs",
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Change stiffness, damping, limits and rest length of tendons, those of ``tendon_names``.

    PhysX's limit stiffness and offset have no like here. The spring's dead zone is at the rest
    length, with both of its ends. The arguments are those of :func:`randomize_actuator_gains`.
    """
    changes: list[tuple[str, int, Range | None]] = [
        ("tendon_stiffness", 0, stiffness_distribution_params),
        ("tendon_damping", 0, damping_distribution_params),
        ("tendon_range", 0, lower_limit_distribution_params),
        ("tendon_range", 1, upper_limit_distribution_params),
    ]
    _change(env, mask, stream, changes, operation, distribution, asset_cfg)
    bounds = rest_length_distribution_params
    if bounds is not None:
        rows = rows_of_field(env, "tendon_lengthspring", asset_cfg)
        drawn = draw(env, stream, distribution, [bounds] * len(rows), mask).unsqueeze(2)
        both = torch.arange(2, device=env.device)
        write(env, mask, "tendon_lengthspring", rows, both, drawn, operation)
        env.sim.apply_params(mask)


@requires_model_fields("opt.gravity")
def randomize_physics_scene_gravity(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    gravity_distribution_params: tuple[Sequence[float], Sequence[float]],
    operation: Operation,
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Change the gravity of each environment separately, in m/s^2; Isaac Lab shares one.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        gravity_distribution_params: Lower bounds of x, y and z, and upper ones (normal: means and
            deviations).
        operation: See :func:`randomize_model_field`.
        distribution: See :func:`randomize_model_field`.
        asset_cfg: Has no effect.
    """
    columns = dict(enumerate(zip(*gravity_distribution_params, strict=True)))
    randomize_model_field(
        env, mask, stream, "opt.gravity", columns, distribution, operation, asset_cfg=asset_cfg
    )


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
    column = {"stiffness": 1, "damping": 2}[gain]
    if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE and prm[column] != 0.0:
        return [("actuator_biasprm", actuator, column, -1.0)]  # computed in torch
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


@requires_model_fields(
    given=lambda params: (
        "geom_friction",
        *(("geom_solref",) if params.get("restitution_range") is not None else ()),
    )
)
def randomize_rigid_body_material(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    friction_range: Range | None = None,
    restitution_range: Range | None = None,
    asset_cfg: SceneEntity = _ROBOT,
    static_friction_range: Range | None = None,
    dynamic_friction_range: Range | None = None,
    num_buckets: int | None = None,
    make_consistent: bool = False,
) -> None:
    """Draw sliding friction and restitution for each environment, the same for all named geoms.

    A contact has the friction of the geom of higher ``priority`` in the MJCF, else the larger of
    the two. PhysX has a static and a dynamic coefficient, MuJoCo only one: a range between the two
    replaces both. Restitution is that of a contact which has these geoms' ``solref`` alone, by
    priority; where two geoms mix theirs, by ``solmix``, it is less.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        friction_range: Bounds of the coefficient; null: those of the next two together.
        restitution_range: Bounds of the speed after a contact over that before it, about; null: no
            change.
        asset_cfg: The geoms.
        static_friction_range: Isaac Lab's bounds of the static coefficient.
        dynamic_friction_range: Isaac Lab's bounds of the dynamic one.
        num_buckets: Has no effect: PhysX can only have so many materials.
        make_consistent: Has no effect: there is one coefficient.

    Raises:
        ConfigurationError: Without any bounds of friction.
    """
    given = [one for one in (static_friction_range, dynamic_friction_range) if one is not None]
    if friction_range is None:
        if not given:
            raise ConfigurationError(
                "randomize_rigid_body_material has no bounds of friction. Give friction_range."
            )
        friction_range = min(low for low, _ in given), max(high for _, high in given)
    randomize_geom_friction(env, mask, stream, friction_range, axis=0, asset_cfg=asset_cfg)
    if restitution_range is not None:
        low, high = (damping_ratio(share) for share in restitution_range)
        randomize_model_field(
            env,
            mask,
            stream,
            "geom_solref",
            (high, low),
            axes=(1,),
            shared_random=True,
            asset_cfg=asset_cfg,
        )


def damping_ratio(restitution: float) -> float:
    """Return the damping ratio of a contact that gives back a share of the speed."""
    if restitution <= 0.0:
        return 1.0
    loss = -math.log(min(restitution, 1.0))
    return loss / math.hypot(math.pi, loss)


@requires_model_fields("geom_friction")
def randomize_geom_friction(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    friction_range: Range,
    axis: int,
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Draw one of MuJoCo's coefficients for each environment, the same for all named geoms.

    mjlab 1.6.0's ``dr.geom_friction`` with ``shared_random``.

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
    randomize_model_field(
        env,
        mask,
        stream,
        "geom_friction",
        friction_range,
        distribution,
        "abs",
        (axis,),
        True,
        asset_cfg,
    )


@requires_model_fields("body_ipos")
def randomize_rigid_body_com(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    com_range: dict[str, Range],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Move the centres of mass of bodies, always from the model's own, all by the same draw.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        com_range: Bounds of ``x``, ``y`` and ``z`` in m, in the bodies' frames.
        asset_cfg: The bodies.

    Raises:
        ConfigurationError: For any other name.
    """
    ranges = _by_column(com_range, "com_range", "xyz", (0.0, 0.0))
    randomize_model_field(
        env, mask, stream, "body_ipos", ranges, "uniform", "add", None, True, asset_cfg
    )


@requires_model_fields("geom_size", "geom_pos")
def randomize_rigid_body_scale(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    scale_range: Range | dict[str, Range],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Scale the simple shapes of bodies about the bodies' frames; masses stay.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        scale_range: Bounds of one factor for all axes, or of ``x``, ``y`` and ``z``, for boxes.
        asset_cfg: The geoms: spheres, capsules, cylinders, ellipsoids and boxes.

    Raises:
        ConfigurationError: For other shapes and other names.
    """
    check_simple_shapes(env, asset_cfg, by_axis=isinstance(scale_range, dict))
    rows = rows_of_field(env, "geom_size", asset_cfg)
    columns = torch.arange(3, device=env.device)
    if isinstance(scale_range, dict):
        ranges = list(_by_column(scale_range, "scale_range", "xyz", (1.0, 1.0)).values())
    else:
        ranges = [scale_range]
    factor = draw(env, stream, "uniform", ranges, mask).unsqueeze(1)
    for field in ("geom_size", "geom_pos"):
        write(env, mask, field, rows, columns, factor, "scale")
    env.sim.apply_params(mask)


def check_simple_shapes(env: VectorEnv, asset_cfg: SceneEntity, *, by_axis: bool = False) -> None:
    """Refuse geoms whose size is not in the field ``geom_size``, or not by x, y and z.

    Raises:
        ConfigurationError: Naming the shape.
    """
    if "has_simple_shapes" in asset_cfg.kept:
        return
    rows = rows_of_field(env, "geom_size", asset_cfg).cpu().numpy()
    for kind in env.sim.model.geom_type[rows].tolist():
        shape = mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower()
        if shape not in _SHAPES or (by_axis and shape not in _SHAPES[3:]):
            raise ConfigurationError(
                f"An event changes the size of a {shape}, but can only change those of "
                f"{', '.join(_SHAPES)}, the last two also by x, y and z. Name other geoms in "
                "asset_cfg."
            )
    asset_cfg.kept["has_simple_shapes"] = True


_SHAPES = ("sphere", "capsule", "cylinder", "ellipsoid", "box")


@requires_model_fields("geom_rgba")
def randomize_visual_color(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    colors: dict[str, Range] | Sequence[tuple[float, float, float]],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Draw one colour for the geoms of each environment; pictures show it where no material does.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        colors: Bounds of ``r``, ``g`` and ``b``, 0 to 1, or a list of colours to choose from.
        asset_cfg: The geoms.
    """
    if isinstance(colors, dict):
        ranges = _by_column(colors, "colors", "rgb", (0.0, 1.0))
        randomize_model_field(
            env, mask, stream, "geom_rgba", ranges, shared_random=True, asset_cfg=asset_cfg
        )
        return
    key = ("colors", str(colors))
    if key not in env.constants:
        env.constants[key] = torch.tensor(colors, dtype=torch.float32, device=env.device)
    chosen = env.constants[key][stream.integers(0, len(colors))].unsqueeze(1)
    rows = rows_of_field(env, "geom_rgba", asset_cfg)
    write(env, mask, "geom_rgba", rows, torch.arange(3, device=env.device), chosen, "abs")
    env.sim.apply_params(mask)


def _by_column(
    ranges: Mapping[str, Range], param: str, names: str, otherwise: Range
) -> dict[int, Range]:
    """Return ranges by the place of their name; refuse other names."""
    for name in ranges:
        if name not in names or len(name) != 1:
            raise ConfigurationError(
                f"{param} has the key {name!r}, but its keys are {', '.join(names)}."
            )
    return {place: ranges.get(name, otherwise) for place, name in enumerate(names)}


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
