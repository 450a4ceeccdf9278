"""Event terms that randomise robots per environment: friction, centres of mass, encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.mdp.randomization import Distribution, draw
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


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
