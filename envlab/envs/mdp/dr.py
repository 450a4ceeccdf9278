"""Randomisation under the names of mjlab 1.6.0's ``dr``: ``mdp.dr.geom_friction``, and so on.

Each is :func:`envlab.envs.mdp.randomize_model_field` of one field, with mjlab's default operation
and columns. Masses, sizes, friction and the like never become negative here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.managers.event import requires_model_fields
from envlab.envs.mdp.model_field import (
    Distribution,
    Operation,
    Range,
    Ranges,
    draw,
    randomize_model_field,
    randomize_orientation,
    rows_of_field,
    write,
)
from envlab.envs.mdp.pseudo_inertia import pseudo_inertia as pseudo_inertia
from envlab.envs.mdp.randomization import check_simple_shapes, randomize_actuator_gains
from envlab.envs.mdp.randomization import randomize_encoder_bias as encoder_bias
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv

_ROBOT: Any = SceneEntityCfg("robot")
Event = Callable[..., None]

__all__ = ["encoder_bias", "pseudo_inertia"]  # and all below


def of_field(
    field: str, summary: str, operation: Operation = "abs", columns: Sequence[int] | None = None
) -> Event:
    """Return the event that changes a field; its name is the field's.

    Args:
        field: The field.
        summary: The event's docstring.
        operation: The default operation.
        columns: The columns that change by default; null: all.
    """
    default = operation

    def change(
        env: VectorEnv,
        mask: torch.Tensor,
        stream: RandomStream,
        ranges: Ranges,
        asset_cfg: SceneEntity = _ROBOT,
        distribution: Distribution = "uniform",
        operation: Operation = default,
        axes: Sequence[int] | None = None,
        shared_random: bool = False,
    ) -> None:
        if axes is None and not (isinstance(ranges, dict) and _are_columns(ranges)):
            axes = columns
        randomize_model_field(
            env,
            mask,
            stream,
            field,
            ranges,
            distribution,
            operation,
            axes,
            shared_random,
            asset_cfg,
        )

    return requires_model_fields(field)(_named(change, field, summary))


def of_orientation(field: str, summary: str) -> Event:
    """Return the event that turns orientations; its name is the field's."""

    def change(
        env: VectorEnv,
        mask: torch.Tensor,
        stream: RandomStream,
        roll_range: Range = (0.0, 0.0),
        pitch_range: Range = (0.0, 0.0),
        yaw_range: Range = (0.0, 0.0),
        distribution: Distribution = "uniform",
        asset_cfg: SceneEntity = _ROBOT,
    ) -> None:
        turns = roll_range, pitch_range, yaw_range
        randomize_orientation(env, mask, stream, field, *turns, distribution, asset_cfg)

    return requires_model_fields(field)(_named(change, field, summary))


def _named(event: Event, name: str, summary: str) -> Event:
    event.__name__ = event.__qualname__ = name
    event.__doc__ = summary
    return event


def _are_columns(ranges: dict[Any, Range]) -> bool:
    return all(not isinstance(name, str) or name.isdigit() for name in ranges)


geom_friction = of_field("geom_friction", "Friction of geoms: sliding, else by axes.", columns=[0])
geom_pos = of_field("geom_pos", "Places of geoms in their bodies, in m.")
geom_quat = of_orientation("geom_quat", "Orientations of geoms in their bodies.")
geom_rgba = of_field("geom_rgba", "Colours of geoms without a material, seen in pictures.")
body_mass = of_field("body_mass", "Masses of bodies alone, in kg; inertias stay.", "scale")
body_com_offset = of_field("body_ipos", "Centres of mass in their bodies, in m.", "add")
body_ipos = body_com_offset
body_pos = of_field("body_pos", "Places of bodies in their parents, in m.", "add")
body_quat = of_orientation("body_quat", "Orientations of bodies in their parents.")
dof_armature = of_field("dof_armature", "Armature of joints, in kg m^2 or kg.")
joint_armature = dof_armature
dof_damping = of_field("dof_damping", "Damping of joints, in N m s/rad or N s/m.")
joint_damping = dof_damping
dof_frictionloss = of_field("dof_frictionloss", "Dry friction of joints, in N m or N.")
joint_friction = dof_frictionloss
jnt_range = of_field("jnt_range", "Limits of joints, in rad or m; column 0 is the lower.")
joint_limits = jnt_range
jnt_stiffness = of_field("jnt_stiffness", "Stiffness of joints' springs, in N m/rad or N/m.")
joint_stiffness = jnt_stiffness
qpos0 = of_field("qpos0", "Positions of joints in the model's own pose, in rad or m.", "add")
joint_default_pos = qpos0
site_pos = of_field("site_pos", "Places of sites in their bodies, in m.")
site_quat = of_orientation("site_quat", "Orientations of sites in their bodies.")
tendon_armature = of_field("tendon_armature", "Armature of tendons, in kg.")
tendon_damping = of_field("tendon_damping", "Damping of tendons, in N s/m.")
tendon_frictionloss = of_field("tendon_frictionloss", "Dry friction of tendons, in N.")
tendon_friction = tendon_frictionloss
tendon_stiffness = of_field("tendon_stiffness", "Stiffness of tendons, in N/m.")
cam_fovy = of_field("cam_fovy", "Vertical fields of view of cameras, in degrees.")
cam_intrinsic = of_field("cam_intrinsic", "Focal lengths and centres of cameras.")
cam_pos = of_field("cam_pos", "Places of cameras in their bodies, in m.")
cam_quat = of_orientation("cam_quat", "Orientations of cameras in their bodies.")
light_ambient = of_field("light_ambient", "Ambient colours of lights.")
light_attenuation = of_field("light_attenuation", "Attenuation of lights with distance.")
light_cutoff = of_field("light_cutoff", "Angles of spotlights, in degrees.")
light_diffuse = of_field("light_diffuse", "Diffuse colours of lights.")
light_dir = of_field("light_dir", "Directions of lights in their bodies.")
light_exponent = of_field("light_exponent", "Falloff of spotlights to their edge.")
light_pos = of_field("light_pos", "Places of lights in their bodies, in m.")
light_specular = of_field("light_specular", "Specular colours of lights.")
mat_emission = of_field("mat_emission", "Light that materials emit.")
mat_rgba = of_field("mat_rgba", "Colours of materials, seen in pictures.")
mat_shininess = of_field("mat_shininess", "Shininess of materials, 0 to 1.")
mat_specular = of_field("mat_specular", "Specular reflection of materials, 0 to 1.")
mat_texrepeat = of_field("mat_texrepeat", "Repetitions of materials' textures.")


@requires_model_fields("geom_size")
def geom_size(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    ranges: Ranges,
    asset_cfg: SceneEntity = _ROBOT,
    distribution: Distribution = "uniform",
    operation: Operation = "scale",
    axes: Sequence[int] | None = None,
    shared_random: bool = False,
) -> None:
    """Change sizes of simple shapes, in m, in MuJoCo's columns; bounds of collisions follow."""
    check_simple_shapes(env, asset_cfg)
    randomize_model_field(
        env,
        mask,
        stream,
        "geom_size",
        ranges,
        distribution,
        operation,
        axes,
        shared_random,
        asset_cfg,
    )


@requires_model_fields("pair_friction")
def pair_friction(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    ranges: Ranges,
    asset_cfg: SceneEntity = _ROBOT,
    distribution: Distribution = "uniform",
    operation: Operation = "abs",
    axes: Sequence[int] | None = None,
    shared_random: bool = False,
    isotropic: bool = False,
) -> None:
    """Change friction of contact pairs: the first sliding direction, else by axes 0 to 4.

    With ``isotropic``, the second sliding direction becomes as the first, and the second rolling
    direction, if either rolls, as the first.
    """
    if axes is None:
        axes = None if isinstance(ranges, dict) and _are_columns(ranges) else [0]
    randomize_model_field(
        env,
        mask,
        stream,
        "pair_friction",
        ranges,
        distribution,
        operation,
        axes,
        shared_random,
        asset_cfg,
    )
    if isotropic:
        rows = rows_of_field(env, "pair_friction", asset_cfg)
        friction = env.sim.params.pair_friction
        chosen = list(ranges) if axes is None else axes
        copies = [(0, 1), (3, 4)] if {3, 4} & {int(axis) for axis in chosen} else [(0, 1)]
        for first, second in copies:
            friction[:, rows, second] = friction[:, rows, first]
        env.sim.apply_params(mask)


@requires_model_fields("geom_matid")
def geom_matid(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    asset_cfg: SceneEntity = _ROBOT,
    shared_random: bool = False,
) -> None:
    """Give each geom one of the materials of ``material_names``, seen in pictures."""
    _choose(env, mask, stream, "geom_matid", "material", 0, asset_cfg, shared_random)


@requires_model_fields("mat_texid")
def mat_texid(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    asset_cfg: SceneEntity = _ROBOT,
    role: int = int(mujoco.mjtTextureRole.mjTEXROLE_RGB),
    shared_random: bool = False,
) -> None:
    """Give each material one of the textures of ``texture_names``, seen in pictures."""
    _choose(env, mask, stream, "mat_texid", "texture", role, asset_cfg, shared_random)


def _choose(
    env: VectorEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    field: str,
    kind: str,
    column: int,
    asset_cfg: SceneEntity,
    shared_random: bool,
) -> None:
    """Write numbers of the model's parts of a kind into a column of a field."""
    rows = rows_of_field(env, field, asset_cfg)
    key = ("choices", kind)
    if key not in asset_cfg.kept:
        number = env.sim.model.nmat if kind == "material" else env.sim.model.ntex
        choices = torch.arange(number, device=env.device)[asset_cfg.others[kind]].float()
        if not len(choices):
            raise ConfigurationError(f"An event chooses a {kind}, but the model has none.")
        asset_cfg.kept[key] = choices
    choices = asset_cfg.kept[key]
    num = 1 if shared_random else len(rows)
    drawn = stream.uniform(0.0, 1.0, num, mask) * len(choices)
    chosen = choices[drawn.long().clamp(max=len(choices) - 1)].unsqueeze(2)
    columns = torch.full((1,), column, device=env.device)
    write(env, mask, field, rows, columns, chosen, "abs")
    env.sim.apply_params(mask)


@requires_model_fields("actuator_gainprm", "actuator_biasprm")
def pd_gains(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    kp_range: Range,
    kd_range: Range,
    asset_cfg: SceneEntity = _ROBOT,
    distribution: Distribution = "uniform",
    operation: Operation = "scale",
) -> None:
    """Change stiffness and damping of actuators; Isaac Lab's ``randomize_actuator_gains``."""
    randomize_actuator_gains(
        env, mask, stream, kp_range, kd_range, operation, distribution, asset_cfg
    )


@requires_model_fields("actuator_forcerange", "jnt_actfrcrange")
def effort_limits(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    effort_limit_range: Range,
    asset_cfg: SceneEntity = _ROBOT,
    distribution: Distribution = "uniform",
    operation: Operation = "scale",
) -> None:
    """Change the largest efforts of actuators, or of their joints, in N m or N, both ways.

    Raises:
        ConfigurationError: If neither is limited, or for the operation ``add``.
    """
    if operation == "add":
        raise ConfigurationError(
            "effort_limits has the operation 'add', but can only scale limits or replace them."
        )
    field = _limited(env, asset_cfg)
    rows = rows_of_field(env, field, asset_cfg)
    drawn = draw(env, stream, distribution, [effort_limit_range] * len(rows), mask)
    both = drawn.unsqueeze(2).expand(-1, -1, 2)
    if operation != "scale":
        both = torch.stack((-drawn, drawn), dim=2)
    columns = torch.arange(2, device=env.device)
    write(env, mask, field, rows, columns, both, operation)
    env.sim.apply_params(mask)


def _limited(env: VectorEnv, asset_cfg: SceneEntity) -> str:
    """Return the field that limits efforts."""
    if "limited" not in asset_cfg.kept:
        model = env.sim.model
        for field, limited in (
            ("actuator_forcerange", model.actuator_forcelimited),
            ("jnt_actfrcrange", model.jnt_actfrclimited),
        ):
            rows = rows_of_field(env, field, asset_cfg).cpu().numpy()
            if np.asarray(limited)[rows].all():
                asset_cfg.kept["limited"] = field
                break
        else:
            raise ConfigurationError(
                "effort_limits is to change limits that some of the actuators and their joints do "
                "not have. Give them an effort_limit, or name other joints in asset_cfg."
            )
    found: str = asset_cfg.kept["limited"]
    return found
