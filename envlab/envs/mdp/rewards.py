"""Reward terms; each returns ``(num_envs,)``.

Commands that rewards follow are (vx, vy, wz), in m/s and rad/s, of a
:class:`UniformVelocityCommandCfg`. As in Isaac Lab, they apply to the root's centre of mass (see
:mod:`envlab.envs.mdp.root`).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import mujoco
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns
from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.masks import clear
from envlab.envs.math import (
    gaussian,
    quat_apply_inverse,
    scaled_square,
    squared_difference,
    yaw_quat,
)
from envlab.envs.mdp.observations import body_accelerations
from envlab.envs.mdp.root import base_lin_vel, projected_gravity, root_ang_vel_w, root_lin_vel_w
from envlab.envs.mdp.velocity_command import velocity_errors
from envlab.envs.ray_caster import RayCaster
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv


_ROBOT: Any = SceneEntityCfg("robot")


def is_alive(env: ManagerEnv) -> torch.Tensor:
    """Return 1 where the episode continues or ends by a time limit, else 0."""
    return (~env.termination_manager.terminated).float()


def is_terminated(env: ManagerEnv) -> torch.Tensor:
    """Return 1 where the episode ends by a failure, else 0."""
    return env.termination_manager.terminated.float()


def _sum(values: torch.Tensor) -> torch.Tensor:
    """Return sums over columns; for one column a view, because a sum takes 4 to 25 us."""
    return values.squeeze(1) if values.shape[1] == 1 else values.sum(dim=1)


def joint_pos_target_l2(env: ManagerEnv, target: float, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the squared distance of angles, wrapped to [-pi, pi), from ``target``, in rad^2."""
    angle = columns(env.sim.data.qpos, asset_cfg.qpos_ids)
    turns = (angle * (0.5 / math.pi)).add_(0.5).floor_()  # a third of torch.remainder's time
    error = torch.sub(angle, turns, alpha=2.0 * math.pi)
    if target:
        error -= target
    return _sum(error.square_())


def joint_vel_l1(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sum of absolute joint velocities, in m/s or rad/s."""
    return _sum(columns(env.sim.data.qvel, asset_cfg.qvel_ids).abs())


def joint_vel_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sum of squared joint velocities."""
    return _sum(columns(env.sim.data.qvel, asset_cfg.qvel_ids).square())


def action_l2(env: ManagerEnv) -> torch.Tensor:
    """Return the sum of squared actions."""
    return env.action_manager.action.square().sum(dim=1)


def action_rate_l2(env: ManagerEnv) -> torch.Tensor:
    """Return the squared change of the action since the step before."""
    manager = env.action_manager
    return squared_difference(manager.action, manager.prev_action).sum(dim=1)


def is_terminated_term(env: ManagerEnv, term_keys: str | list[str] = ".*") -> torch.Tensor:
    """Return how many of the named terminations end the episode; 0 where a time limit also does.

    Args:
        env: The environment.
        term_keys: Names of terminations, by regular expressions that match in full.

    Raises:
        ConfigurationError: For an expression that matches none.
    """
    manager = env.termination_manager
    patterns = [term_keys] if isinstance(term_keys, str) else term_keys
    for pattern in patterns:
        if not any(re.fullmatch(pattern, name) for name in manager.active_terms):
            raise ConfigurationError(
                f"term_keys names {pattern!r}, which matches none of the terminations "
                f"{', '.join(manager.active_terms)}."
            )
    values = manager.episode_values()
    named = [
        values[f"Episode_Termination/{name}"]
        for name in manager.active_terms
        if any(re.fullmatch(pattern, name) for pattern in patterns)
    ]
    return (torch.stack(named).sum(dim=0) * ~manager.time_outs).float()


def base_height_l2(
    env: ManagerEnv,
    target_height: float,
    asset_cfg: SceneEntity = _ROBOT,
    sensor_cfg: RayCaster | None = None,
) -> torch.Tensor:
    """Return the squared distance of the root's height from ``target_height``, in m^2.

    Args:
        env: The environment.
        target_height: In m.
        asset_cfg: The entity.
        sensor_cfg: Points over whose mean height the target is, a :class:`RayCasterCfg` of
            ``env.sensors``; None: the target is above 0.
    """
    height = env.sim.data.qpos[:, asset_cfg.root_pos][:, 2]
    if sensor_cfg is not None:
        height = height - sensor_cfg.ground_heights.mean(dim=1)
    return (height - target_height).square()


def body_lin_acc_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the accelerations of bodies' centres of mass in m/s^2, summed (not squared).

    They are measured by ``<framelinacc objtype="body" objname="..."/>`` of the model, one for each
    body of ``asset_cfg``. Needs ``sensordata`` in ``env.sim.data_fields``.
    """
    key = ("gravity",)
    if key not in env.constants:
        option = env.sim.model.opt
        is_on = not option.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
        gravity = [float(value) * is_on for value in option.gravity]
        env.constants[key] = torch.tensor(gravity, device=env.device)
    # To MuJoCo, a body that gravity pulls on is accelerated upwards while it rests.
    acceleration = body_accelerations(env, asset_cfg) + env.constants[key]
    return torch.linalg.vector_norm(acceleration, dim=2).sum(dim=1)


class action_acc_l2(ManagerTermBase):
    """Return the squared change of the change of the action since the step before."""

    STATE = State(per_env=("before",))

    def __init__(self, cfg: FunctionTermCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        manager = env.action_manager  # type: ignore[attr-defined]
        self.before = torch.zeros_like(manager.prev_action)
        """The action of two steps ago; zero after a reset."""

    def __call__(self, env: ManagerEnv) -> torch.Tensor:
        return self.change(env).square().sum(dim=1)

    def change(self, env: ManagerEnv) -> torch.Tensor:
        """Return it for each number of the action, and remember the action."""
        manager = env.action_manager
        change = manager.action - 2.0 * manager.prev_action + self.before
        self.before.copy_(manager.prev_action)
        return change

    def reset(self, mask: torch.Tensor) -> None:
        clear(self.before, mask)


class mean_action_acc(action_acc_l2):
    """Return the mean size of the change of the change of the action; mjlab's metric."""

    def __call__(self, env: ManagerEnv) -> torch.Tensor:
        return self.change(env).abs().mean(dim=1)


def track_lin_vel_xy_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the horizontal velocity in the root's frame."""
    moving, _ = velocity_errors(env, env.command_manager.get_term(command_name), asset_cfg)
    return torch.exp(scaled_square(moving, -1.0 / std**2))


def track_lin_vel_xy_yaw_frame_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the velocity along the ground, in the root's heading."""
    heading = yaw_quat(env.sim.data.qpos[:, asset_cfg.root_quat])
    velocity = quat_apply_inverse(heading, root_lin_vel_w(env, asset_cfg))
    command = env.command_manager.get_command(command_name)
    return gaussian(command[:, :2] - velocity[:, :2], std)


def track_ang_vel_z_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the turning velocity about the root's own axis."""
    _, turning = velocity_errors(env, env.command_manager.get_term(command_name), asset_cfg)
    return torch.exp(scaled_square(turning, -1.0 / std**2))


def track_ang_vel_z_world_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the turning velocity about the vertical."""
    turning = root_ang_vel_w(env, asset_cfg)[:, 2]
    command = env.command_manager.get_command(command_name)
    return torch.exp(scaled_square(command[:, 2] - turning, -1.0 / std**2))


def lin_vel_z_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the squared velocity along the root's own z axis, in m^2/s^2."""
    return base_lin_vel(env, asset_cfg)[:, 2].square()


def ang_vel_xy_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the squared rolling and pitching velocity, in rad^2/s^2."""
    return env.sim.data.qvel[:, asset_cfg.root_ang_vel][:, :2].square().sum(dim=1)


def flat_orientation_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the squared horizontal part of gravity's direction in the root's frame: 0 if level."""
    return projected_gravity(env, asset_cfg)[:, :2].square().sum(dim=1)


def bad_orientation(
    env: ManagerEnv, limit_angle: float, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether the root is tilted by more than ``limit_angle``, in rad: a termination."""
    return projected_gravity(env, asset_cfg)[:, 2] > -math.cos(limit_angle)
