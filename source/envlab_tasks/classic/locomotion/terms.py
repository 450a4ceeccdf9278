"""Terms of the manager-based Ant and Humanoid, with the names and formulas of Isaac Lab 2.3.2.

``target_pos`` is a point in the world, in m; only its x and y count. A mirror takes it to
be at y = 0, as that of Ant and Humanoid is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.entities import SceneEntity, columns, joint_values
from envlab.envs.math import wrap_to_pi
from envlab.envs.mirror import mirrored
from envlab_tasks.classic.locomotion.geometry import facing, progress, to_target

if TYPE_CHECKING:
    from envlab.envs import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")
Point = tuple[float, float, float]


# Observations -------------------------------------------------------------------------------------


@mirrored(-1.0, -1.0)
def base_yaw_roll(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's yaw and roll, in rad, in [-pi, pi], ``(num_envs, 2)``."""
    return _yaw_roll(env, asset_cfg).T


@mirrored(-1.0)
def base_angle_to_target(
    env: ManagerEnv, target_pos: Point, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the turn that would face the target, in rad, in [-pi, pi), ``(num_envs, 1)``."""
    x, y = _way(env, target_pos, asset_cfg).unbind(1)
    return wrap_to_pi(torch.atan2(y, x) - _yaw_roll(env, asset_cfg)[0]).unsqueeze(1)


@mirrored(1.0)
def base_up_proj(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the cosine of the root's tilt, 1 when upright, ``(num_envs, 1)``."""
    return mdp.root_rotation_w(env, asset_cfg)[:, 2, 2:]


@mirrored(1.0)
def base_heading_proj(
    env: ManagerEnv, target_pos: Point, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return how far the root faces the target, in [-1, 1], ``(num_envs, 1)``."""
    rotation = mdp.root_rotation_w(env, asset_cfg)
    cosine: torch.Tensor = env.once(
        ("facing", asset_cfg.root_body, *target_pos),
        lambda: facing(
            rotation, _way(env, target_pos, asset_cfg), _distance(env, target_pos, asset_cfg)
        ),
    )
    return cosine.unsqueeze(1)


# Rewards ------------------------------------------------------------------------------------------


def upright_posture_bonus(
    env: ManagerEnv, threshold: float, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return 1 where the root stands more upright than ``threshold``, a cosine, else 0."""
    return (mdp.root_rotation_w(env, asset_cfg)[:, 2, 2] > threshold).float()


def move_to_target_bonus(
    env: ManagerEnv, threshold: float, target_pos: Point, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return 1 where the root faces the target by more than ``threshold``, less elsewhere."""
    facing = base_heading_proj(env, target_pos, asset_cfg)[:, 0]
    return (facing / threshold).clamp(max=1.0)


def progress_reward(
    env: ManagerEnv, target_pos: Point, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the mean speed towards the target during the step, in m/s."""
    last, now = env.last_qpos[:, asset_cfg.root_pos], env.sim.data.qpos[:, asset_cfg.root_pos]
    way, distance = _way(env, target_pos, asset_cfg), _distance(env, target_pos, asset_cfg)
    return progress(last, now, way, distance) / env.step_dt


def power_consumption(
    env: ManagerEnv, gear_ratio: dict[str, float], asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the sum over joints of |action times velocity|, weighted by gear.

    Args:
        env: The environment.
        gear_ratio: Motor strength by joint name (regular expressions); the largest weighs 1.
        asset_cfg: The joints; all of them are driven.
    """
    power = env.action_manager.action * columns(env.sim.data.qvel, asset_cfg.qvel_ids)
    return power.abs() @ _relative_gears(env, gear_ratio, asset_cfg)


def joint_pos_limits_penalty_ratio(
    env: ManagerEnv, threshold: float, gear_ratio: dict[str, float], asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return how far joints are beyond ``threshold`` of their limits: up to 1 for each joint.

    Isaac Lab has no upper bound, and needs none: joints there stop at their limits. MuJoCo's are
    springs, which a random policy presses in by a tenth of the range: a penalty of 10 per joint.

    Args:
        env: The environment.
        threshold: Share of the way from the middle to a limit that is free.
        gear_ratio: Motor strength by joint name (regular expressions); the largest weighs 1.
        asset_cfg: The joints.
    """
    share = mdp.joint_pos_limit_normalized(env, asset_cfg).abs().clamp(threshold, 1.0)
    return (share - threshold) @ _relative_gears(env, gear_ratio, asset_cfg, 1.0 - threshold)


def _yaw_roll(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the root's yaw and roll, in rad, in [-pi, pi], ``(2, num_envs)``."""

    def compute() -> torch.Tensor:
        # Of its x axis the second and the first component, of the vertical the second and third.
        elements = mdp.root_rotation_w(env, asset_cfg).flatten(1).T
        return torch.atan2(elements[3:8:4], elements[:9:8])

    angles: torch.Tensor = env.once(("yaw_roll", asset_cfg.root_body), compute)
    return angles


def _way(env: ManagerEnv, target_pos: Point, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the horizontal vector from the root to the target, in m, ``(num_envs, 2)``."""
    way: torch.Tensor = env.once(
        ("way", asset_cfg.root_body, *target_pos),
        lambda: to_target(env.sim.data.qpos[:, asset_cfg.root_pos], target_pos),
    )
    return way


def _distance(env: ManagerEnv, target_pos: Point, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the length of that vector, in m, ``(num_envs,)``."""
    distance: torch.Tensor = env.once(
        ("distance", asset_cfg.root_body, *target_pos),
        lambda: torch.linalg.vector_norm(_way(env, target_pos, asset_cfg), dim=1),
    )
    return distance


def _relative_gears(
    env: ManagerEnv, gear_ratio: dict[str, float], asset_cfg: SceneEntity, per: float = 1.0
) -> torch.Tensor:
    """Return each joint's gear as a share of the largest, divided by ``per``, ``(num_joints,)``."""
    key = ("relative_gears", per, *gear_ratio.items(), *asset_cfg.joint_names)
    if key not in env.constants:
        gears = torch.tensor(joint_values(gear_ratio, asset_cfg.joint_names), device=env.device)
        env.constants[key] = gears / (gears.max() * per)
    return env.constants[key]
