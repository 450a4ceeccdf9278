"""Randomisation of any field of MuJoCo's model: its rows by name, its columns by number.

Draws start from the model's own values; the fields join ``env.sim.model_fields`` by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.entity_names import matching
from envlab.envs.managers.event import requires_model_fields
from envlab.envs.masks import rows_of
from envlab.envs.math import quat_from_euler_xyz, quat_mul
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError, did_you_mean
from envlab.sim.host import on_host

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

_ROBOT: Any = SceneEntityCfg("robot")

Range = tuple[float, float]
Ranges = Range | Mapping[Any, Range]
"""One range for all; or by column, ``{0: (0.5, 1.0)}``; or by regular expressions of names."""
Operation = Literal["add", "scale", "abs", "set"]
Distribution = Literal["uniform", "log_uniform", "gaussian", "normal"]

LEAST_MASS_KG = 1e-6
"""The minimum mass that a draw may give a body, as in Isaac Lab."""
_NONNEGATIVE = frozenset(
    "body_inertia dof_armature dof_damping dof_frictionloss geom_friction geom_size jnt_stiffness "
    "pair_friction tendon_armature tendon_damping tendon_frictionloss tendon_stiffness".split()
)
_ROWS = {
    "body": ("body_ids", "body"),
    "jnt": ("joint_ids", "joint"),
    "dof": ("qvel_ids", "joint"),
    "qpos0": ("qpos_ids", "joint"),
    "qpos": ("qpos_ids", "joint"),
    "geom": ("geom_ids", "geom"),
    "site": ("site_ids", "site"),
    "actuator": ("actuator_ids", "actuator"),
    "cam": ("camera", "cam"),
    "light": ("light", "light"),
    "mat": ("material", "mat"),
    "pair": ("pair", "pair"),
    "tendon": ("tendon", "tendon"),
}
"""Beginnings of fields' names: the entity's rows of them, and the model's way to name a row."""


changes_given_field = requires_model_fields(
    given=lambda params: (params["field"],) if "field" in params else ()
)


@changes_given_field
def randomize_model_field(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    field: str,
    ranges: Ranges,
    distribution: Distribution = "uniform",
    operation: Operation = "abs",
    axes: Sequence[int] | None = None,
    shared_random: bool = False,
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Change a field of the model: friction, damping, sizes, gravity, colours, or any other.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        field: Its name in MjModel, ``geom_friction``; of the options, ``opt.gravity``.
        ranges: Bounds of the draws (normal: mean and deviation), see :data:`Ranges`.
        distribution: ``uniform``, ``log_uniform`` or ``gaussian``, also called ``normal``.
        operation: Use of a draw: ``add`` it to the model's own value, ``scale`` that, or replace
            it, ``abs`` or ``set``. Masses, sizes, friction and the like never become negative.
        axes: The columns to change; null: those of ``ranges``, else all.
        shared_random: Whether all rows of an environment have the same draw.
        asset_cfg: The rows: bodies, joints, geoms, and so on, as the field has them.

    Raises:
        ConfigurationError: For an unknown distribution, operation, column or name.
    """
    for rows, columns, bounds in _parts(env, field, ranges, axes, asset_cfg):
        num = 1 if shared_random else len(rows)
        drawn = draw(env, stream, distribution, bounds * num, mask)
        write(env, mask, field, rows, columns, drawn.unflatten(1, (num, len(bounds))), operation)
    env.sim.apply_params(mask)


@changes_given_field
def randomize_orientation(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    field: str,
    roll_range: Range = (0.0, 0.0),
    pitch_range: Range = (0.0, 0.0),
    yaw_range: Range = (0.0, 0.0),
    distribution: Distribution = "uniform",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Turn orientations of a field, ``geom_quat`` or the like, from the model's own.

    The arguments are those of :func:`randomize_model_field`, and ranges in rad.
    """
    ((rows, columns, _),) = _parts(env, field, (0.0, 0.0), None, asset_cfg)
    num = len(rows)
    drawn = [
        draw(env, stream, distribution, (bounds,) * num, mask)
        for bounds in (roll_range, pitch_range, yaw_range)
    ]
    nominal = env.nominal_rows(field)[:, rows].expand(env.num_envs, num, 4)
    turned = quat_mul(quat_from_euler_xyz(*drawn), nominal)
    write(env, mask, field, rows, columns, turned, "abs")
    env.sim.apply_params(mask)


def draw(
    env: VectorEnv,
    stream: RandomStream,
    distribution: Distribution,
    bounds: Sequence[Range],
    mask: torch.Tensor,
) -> torch.Tensor:
    """Return draws, ``(num_envs, len(bounds))``, of which only the rows of ``mask`` are valid.

    Raises:
        ConfigurationError: For an unknown distribution, or bounds that have no logarithm.
    """
    if distribution == "uniform":
        return stream.ranges(bounds, mask)
    if distribution in ("gaussian", "normal"):
        key = ("normal", *bounds)
        if key not in env.constants:
            env.constants[key] = torch.tensor(bounds, device=env.device).T.contiguous()
        mean, deviation = env.constants[key]
        return stream.normal(0.0, 1.0, len(bounds)) * deviation + mean
    if distribution != "log_uniform":
        raise ConfigurationError(
            f"A random distribution is {distribution!r}, but must be uniform, log_uniform or "
            "gaussian."
        )
    for low, high in bounds:
        if not 0.0 < low <= high:
            raise ConfigurationError(
                f"The bounds {[low, high]} of a log_uniform distribution must be greater than 0."
            )
    return stream.ranges([(math.log(low), math.log(high)) for low, high in bounds], mask).exp()


def combine(nominal: torch.Tensor, drawn: torch.Tensor, operation: Operation) -> torch.Tensor:
    """Return model values changed by draws.

    Raises:
        ConfigurationError: For an unknown operation.
    """
    if operation == "add":
        return nominal + drawn
    if operation == "scale":
        return nominal * drawn
    if operation in ("abs", "set"):
        return drawn
    raise ConfigurationError(f"An operation is {operation!r}, but must be add, scale or abs.")


def write(
    env: VectorEnv,
    mask: torch.Tensor,
    field: str,
    rows: torch.Tensor,
    columns: torch.Tensor,
    drawn: torch.Tensor,
    operation: Operation,
) -> None:
    """Change a field's rows and columns in the environments of ``mask``, for ``apply_params``.

    Args:
        env: The environment.
        mask: Bool ``(num_envs,)``.
        field: The field.
        rows: Int64 ``(r,)``.
        columns: Int64 ``(c,)``.
        drawn: ``(num_envs, r, c)``, or 1 in place of either for the same everywhere.
        operation: See :func:`randomize_model_field`.
    """
    values = _table(env.sim.params[field], field)
    nominal = _table(env.nominal_rows(field), field)
    envs: Any = slice(None)
    if on_host(mask.device):  # the chosen alone
        envs = torch.from_numpy(rows_of(mask))
        drawn = drawn if len(drawn) == 1 else drawn[envs]
        nominal = nominal if len(nominal) == 1 else nominal[envs]
        envs = envs[:, None, None]
    nominal = nominal[:, rows.unsqueeze(1), columns]
    changed = combine(nominal, drawn, operation)
    if field == "body_mass":
        changed = changed.clamp(min=LEAST_MASS_KG)
    elif field in _NONNEGATIVE:
        changed = changed.clamp(min=0.0)
    where = (envs, rows.unsqueeze(1), columns)
    if not on_host(mask.device):
        changed = torch.where(mask[:, None, None], changed, values[where])
    values[where] = changed


def rows_of_field(env: VectorEnv, field: str, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the rows of a field that an entity selects, int64 on the device."""
    key = ("rows", field)
    if key not in asset_cfg.kept:
        name, _ = _ROWS.get(field.partition("_")[0], ("", ""))
        chosen = (
            asset_cfg.others[name]
            if name in asset_cfg.others
            else getattr(asset_cfg, name, slice(None))
        )
        size = _table(env.nominal(field).unsqueeze(0), field).shape[1]
        asset_cfg.kept[key] = torch.arange(size, device=env.device)[chosen]
        if not len(asset_cfg.kept[key]):
            raise ConfigurationError(
                f"An event changes {field!r}, but {asset_cfg.name!r} has no part with that field. "
                "Choose another entity or other names in asset_cfg, or leave the event out."
            )
    rows: torch.Tensor = asset_cfg.kept[key]
    return rows


# --------------------------------------------------------------------------------------------------


def _table(values: torch.Tensor, field: str) -> torch.Tensor:
    """Return a view of a field as ``(num_envs, rows, columns)``."""
    if field.startswith("opt."):
        values = values.unsqueeze(1)
    return values.unsqueeze(2) if values.dim() == 2 else values


Part = tuple[torch.Tensor, torch.Tensor, tuple[Range, ...]]
"""Rows, columns, and a range for each column."""


def _parts(
    env: VectorEnv, field: str, ranges: Ranges, axes: Sequence[int] | None, asset_cfg: SceneEntity
) -> list[Part]:
    """Return what to change by how much, looked up once."""
    items = tuple(ranges.items()) if isinstance(ranges, Mapping) else tuple(ranges)
    key = ("parts", field, str(items), None if axes is None else tuple(axes))
    if key not in asset_cfg.kept:
        asset_cfg.kept[key] = _find_parts(env, field, ranges, axes, asset_cfg)
    parts: list[Part] = asset_cfg.kept[key]
    return parts


def _find_parts(
    env: VectorEnv, field: str, ranges: Ranges, axes: Sequence[int] | None, asset_cfg: SceneEntity
) -> list[Part]:
    rows = rows_of_field(env, field, asset_cfg)
    by_name: dict[str, Range] = {}
    by_axis: dict[int, Range] = {}
    for name, bounds in ranges.items() if isinstance(ranges, Mapping) else ():
        if isinstance(name, str) and not name.isdigit():
            by_name[name] = bounds
        else:
            by_axis[int(name)] = bounds
    width = _table(env.nominal(field).unsqueeze(0), field).shape[2]
    chosen = list(axes) if axes is not None else list(by_axis) or list(range(width))
    missing = [axis for axis in chosen if by_axis and axis not in by_axis]
    unknown = [axis for axis in (*chosen, *by_axis) if not 0 <= axis < width]
    if missing or unknown:
        raise ConfigurationError(
            f"An event changes column {[*unknown, *missing][0]} of {field!r}, "
            + (f"which has columns 0 to {width - 1}." if unknown else "which has no range.")
        )
    columns = torch.tensor(chosen, device=env.device)
    if not by_name:
        return [
            (rows, columns, tuple(_bounds(by_axis.get(axis, ranges), field) for axis in chosen))
        ]
    names = _row_names(env.sim.model, field, rows)
    parts = []
    for pattern, each in by_name.items():
        chosen_names = {*matching(pattern, names)}
        found = [i for i, name in enumerate(names) if name in chosen_names]
        if not found:
            raise ConfigurationError(
                f"The pattern {pattern!r} of an event that changes {field!r} matches none of "
                f"{', '.join(names)}.{did_you_mean(pattern, names)}"
            )
        parts.append((rows[found], columns, (_bounds(each, field),) * len(chosen)))
    return parts


def _bounds(given: Any, field: str) -> Range:
    if len(given) != 2:
        raise ConfigurationError(
            f"A range of an event that changes {field!r} is {given!r}, but needs two numbers."
        )
    return float(given[0]), float(given[1])


def _row_names(model: mujoco.MjModel, field: str, rows: torch.Tensor) -> list[str]:
    """Return the name of each row of a field; '' where it has none."""
    kind = field.partition("_")[0]
    ids = rows.cpu().numpy()
    if kind == "dof":
        ids = model.dof_jntid[ids]
    elif kind in ("qpos", "qpos0"):
        ids = np.searchsorted(model.jnt_qposadr, ids, side="right") - 1
    if kind not in _ROWS:
        return [""] * len(ids)
    lookup = getattr(model, _ROWS[kind][1])
    return [str(lookup(int(i)).name) for i in ids]
