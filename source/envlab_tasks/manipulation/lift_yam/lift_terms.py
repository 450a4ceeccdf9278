"""Terms of lifting a cube to a commanded place. Names and formulas are mjlab 1.6.0's.

Those of the grasp point need ``site_xpos`` in ``env.sim.data_fields``, those in the frame of the
robot's base ``xpos`` and ``xquat``. Those of a ``command_name`` are about the cube that a
:class:`LiftingCommand` has chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.entities import SceneEntity, columns
from envlab.envs.math import quat_apply_inverse
from envlab.envs.mdp.root import base_pose, site_orientations, site_positions
from envlab.errors import ConfigurationError
from envlab_tasks.manipulation.lift_yam.lifting_command import LiftingCommand

if TYPE_CHECKING:
    from envlab.envs import ManagerEnv

ROBOT: Any = SceneEntityCfg("robot")
GRASP: Any = SceneEntityCfg("robot", site_names="grasp_site")
LEAST_DEPTH_M = 0.01


# Observations -------------------------------------------------------------------------------------


def ee_to_object_distance(
    env: ManagerEnv, command_name: str, asset_cfg: SceneEntity = GRASP
) -> torch.Tensor:
    """Return the way from the grasp point to the cube in the base's frame, in m."""
    way = _lifting(env, command_name).object_pos() - site_positions(env, asset_cfg)[:, 0]
    return quat_apply_inverse(base_pose(env, asset_cfg)[1], way)


def object_to_goal_distance(
    env: ManagerEnv, command_name: str, asset_cfg: SceneEntity = ROBOT
) -> torch.Tensor:
    """Return the way from the cube to its place in the base's frame, in m."""
    lifting = _lifting(env, command_name)
    return quat_apply_inverse(base_pose(env, asset_cfg)[1], lifting.command - lifting.object_pos())


def target_position(
    env: ManagerEnv, command_name: str, asset_cfg: SceneEntity = GRASP
) -> torch.Tensor:
    """Return the way from the grasp point to the place, in the grasp point's frame, in m."""
    way = _lifting(env, command_name).command - site_positions(env, asset_cfg)[:, 0]
    return quat_apply_inverse(site_orientations(env, asset_cfg)[:, 0], way)


def camera_rgb(env: ManagerEnv, sensor_cfg: Any) -> torch.Tensor:
    """Return a camera's colours from 0 to 1, ``(num_envs, height, width, 3)``."""
    colours: torch.Tensor = sensor_cfg.image("rgb")
    return colours / 255.0


def camera_depth(env: ManagerEnv, sensor_cfg: Any, cutoff_distance: float) -> torch.Tensor:
    """Return a camera's depths, 1 at ``cutoff_distance`` (m) and beyond, in one channel."""
    depth: torch.Tensor = sensor_cfg.image("depth")
    return depth.clamp(LEAST_DEPTH_M, cutoff_distance) / cutoff_distance


def camera_target_cube_mask(env: ManagerEnv, sensor_cfg: Any, command_name: str) -> torch.Tensor:
    """Return 1 where a camera sees the chosen cube, else 0, in one channel."""
    lifting = _lifting(env, command_name)
    masks = [mdp.segmentation_mask(env, sensor_cfg, cube)[..., 0] for cube in lifting.cubes]
    every = torch.arange(env.num_envs, device=env.device)
    return torch.stack(masks)[lifting.selection, every].unsqueeze(-1)


# Rewards ------------------------------------------------------------------------------------------


def staged_position_reward(
    env: ManagerEnv,
    command_name: str,
    reaching_std: float,
    bringing_std: float,
    asset_cfg: SceneEntity = GRASP,
) -> torch.Tensor:
    """Return 1 where the cube is grasped and 2 where it is also at its place.

    It is ``reaching * (1 + bringing)``, gaussian kernels of the distances, whose widths are in m.
    """
    lifting = _lifting(env, command_name)
    way = site_positions(env, asset_cfg)[:, 0] - lifting.object_pos()
    reaching = torch.exp(-way.square().sum(dim=1) / reaching_std**2)
    return reaching * (1.0 + bring_object_reward(env, command_name, bringing_std))


def bring_object_reward(env: ManagerEnv, command_name: str, std: float) -> torch.Tensor:
    """Return 1 where the cube is at its place, falling to 0 over some ``std``, in m."""
    return torch.exp(-(_lifting(env, command_name).position_error() / std).square())


def joint_velocity_hinge_penalty(
    env: ManagerEnv, max_vel: float, asset_cfg: SceneEntity = ROBOT
) -> torch.Tensor:
    """Return the squares of joints' speeds above ``max_vel``, in rad/s and m/s, summed."""
    speeds = columns(env.sim.data.qvel, asset_cfg.qvel_ids).abs()
    return (speeds - max_vel).clamp(min=0.0).square().sum(dim=1)


def is_at_goal(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return whether the cube is at its place."""
    return _lifting(env, command_name).is_at_goal()


def _lifting(env: ManagerEnv, command_name: str) -> LiftingCommand:
    term = env.command_manager.get_term(command_name)
    if not isinstance(term, LiftingCommand):
        raise ConfigurationError(
            f"A term of lifting reads the command {command_name!r}, which is a "
            f"{type(term.cfg).__name__}, but must be a LiftingCommandCfg."
        )
    return term
