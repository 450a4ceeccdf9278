"""Terms of tasks in which a robot moves an object that has a free joint.

The robot's grasp point is a site, selected by ``ee_frame_cfg``; it needs ``site_xpos`` in
``env.sim.data_fields``, terms in the robot's frame need ``xpos`` and ``xquat``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import combine_frame_transforms, quat_apply_inverse
from envlab.envs.mdp.root import base_pose, site_positions

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")
_OBJECT: Any = SceneEntityCfg("object")
_EE_FRAME: Any = SceneEntityCfg("robot", site_names="ee")


def object_position_in_robot_root_frame(
    env: ManagerEnv, robot_cfg: SceneEntity = _ROBOT, object_cfg: SceneEntity = _OBJECT
) -> torch.Tensor:
    """Return the object's position in the frame of the robot's topmost body, in m."""
    pos, quat = base_pose(env, robot_cfg)
    return quat_apply_inverse(quat, env.sim.data.qpos[:, object_cfg.root_pos] - pos)


def object_ee_distance(
    env: ManagerEnv,
    std: float,
    object_cfg: SceneEntity = _OBJECT,
    ee_frame_cfg: SceneEntity = _EE_FRAME,
) -> torch.Tensor:
    """Return 1 where the grasp point is in the object, falling to 0 over some ``std``, in m."""
    ee_pos = site_positions(env, ee_frame_cfg)[:, 0]
    distance = (env.sim.data.qpos[:, object_cfg.root_pos] - ee_pos).norm(dim=1)
    return 1.0 - torch.tanh(distance / std)


def object_is_lifted(
    env: ManagerEnv, minimal_height: float, object_cfg: SceneEntity = _OBJECT
) -> torch.Tensor:
    """Return 1 where the object is higher in the world than ``minimal_height``, in m, else 0."""
    return (env.sim.data.qpos[:, object_cfg.root_pos][:, 2] > minimal_height).float()


def object_goal_distance(
    env: ManagerEnv,
    std: float,
    minimal_height: float,
    command_name: str,
    robot_cfg: SceneEntity = _ROBOT,
    object_cfg: SceneEntity = _OBJECT,
) -> torch.Tensor:
    """Return 1 where a lifted object is at its goal, falling to 0 over some ``std``, in m.

    It is 0 for an object that is not higher than ``minimal_height``, in m.
    """
    distance = _distance_from_goal(env, command_name, robot_cfg, object_cfg)
    lifted = object_is_lifted(env, minimal_height, object_cfg)
    return lifted * (1.0 - torch.tanh(distance / std))


def object_is_at_goal(
    env: ManagerEnv,
    threshold: float,
    minimal_height: float,
    command_name: str,
    robot_cfg: SceneEntity = _ROBOT,
    object_cfg: SceneEntity = _OBJECT,
) -> torch.Tensor:
    """Return 1 where a lifted object is within ``threshold``, in m, of its goal, else 0."""
    distance = _distance_from_goal(env, command_name, robot_cfg, object_cfg)
    return object_is_lifted(env, minimal_height, object_cfg) * (distance < threshold)


def _distance_from_goal(
    env: ManagerEnv, command_name: str, robot_cfg: SceneEntity, object_cfg: SceneEntity
) -> torch.Tensor:
    command = env.command_manager.get_command(command_name)
    goal, _ = combine_frame_transforms(*base_pose(env, robot_cfg), command[:, :3], command[:, 3:])
    return (goal - env.sim.data.qpos[:, object_cfg.root_pos]).norm(dim=1)
