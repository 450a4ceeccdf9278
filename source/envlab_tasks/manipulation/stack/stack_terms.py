"""Terms of stacking cubes with a gripper of two fingers. Names and formulas are Isaac Lab 2.3.2's.

Its thresholds: a cube is grasped if it is within 6 cm of the grasp point and both fingers are more
than 5 mm from open. It is on another if it is less than 5 cm aside of it (in the whole stack 4 cm)
and less than 5 mm higher than the 46.8 mm that centres of stacked cubes are apart; how much lower
is not asked. Fingers are open to 0.1 mm.

They need ``site_xpos`` and ``xquat``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs import SceneEntityCfg
from envlab.envs.entities import SceneEntity, columns
from envlab.envs.math import quat_from_angles
from envlab.envs.mdp.events import joint_limits, six_ranges
from envlab.envs.mdp.root import site_orientations, site_positions
from envlab.envs.random import RandomStream

if TYPE_CHECKING:
    from envlab.envs import ManagerEnv

_CUBE_1: Any = SceneEntityCfg("cube_1")
_CUBE_2: Any = SceneEntityCfg("cube_2")
_CUBE_3: Any = SceneEntityCfg("cube_3")
_EE: Any = SceneEntityCfg("robot", site_names="ee")
_FINGERS: Any = SceneEntityCfg("robot", joint_names="panda_finger_joint.*")

FINGERS_OPEN_M = 0.04
"""Position of an open finger."""
NUM_CANDIDATES = 64
"""Places that are drawn for a cube, of which the first takes it that is far from the others."""

# Observations -------------------------------------------------------------------------------------


def cube_positions_in_world_frame(
    env: ManagerEnv,
    cube_1_cfg: SceneEntity = _CUBE_1,
    cube_2_cfg: SceneEntity = _CUBE_2,
    cube_3_cfg: SceneEntity = _CUBE_3,
) -> torch.Tensor:
    """Return where the cubes are from the environment's origin, in m, ``(num_envs, 9)``."""
    return torch.cat([_position(env, cube) for cube in (cube_1_cfg, cube_2_cfg, cube_3_cfg)], dim=1)


def cube_orientations_in_world_frame(
    env: ManagerEnv,
    cube_1_cfg: SceneEntity = _CUBE_1,
    cube_2_cfg: SceneEntity = _CUBE_2,
    cube_3_cfg: SceneEntity = _CUBE_3,
) -> torch.Tensor:
    """Return how the cubes are turned, (w, x, y, z) each, ``(num_envs, 12)``."""
    cubes = (cube_1_cfg, cube_2_cfg, cube_3_cfg)
    return torch.cat([env.sim.data.qpos[:, cube.root_quat] for cube in cubes], dim=1)


def object_obs(
    env: ManagerEnv,
    cube_1_cfg: SceneEntity = _CUBE_1,
    cube_2_cfg: SceneEntity = _CUBE_2,
    cube_3_cfg: SceneEntity = _CUBE_3,
    ee_frame_cfg: SceneEntity = _EE,
) -> torch.Tensor:
    """Return poses of the cubes, ways to them, and between them, ``(num_envs, 39)``.

    In m and world frame: position and orientation of each cube, the way from the grasp point to
    each, and from cube 2 to 1, 3 to 2 and 3 to 1.
    """
    cubes = (cube_1_cfg, cube_2_cfg, cube_3_cfg)
    first, second, third = places = [_position(env, cube) for cube in cubes]
    ee = ee_frame_pos(env, ee_frame_cfg)
    poses = [
        part
        for place, cube in zip(places, cubes, strict=True)
        for part in (place, env.sim.data.qpos[:, cube.root_quat])
    ]
    between = [first - second, second - third, first - third]
    return torch.cat([*poses, *(place - ee for place in places), *between], dim=1)


def ee_frame_pos(env: ManagerEnv, ee_frame_cfg: SceneEntity = _EE) -> torch.Tensor:
    """Return where the grasp point is from the environment's origin, in m, ``(num_envs, 3)``."""
    return site_positions(env, ee_frame_cfg)[:, 0] - env.env_origins


def ee_frame_quat(env: ManagerEnv, ee_frame_cfg: SceneEntity = _EE) -> torch.Tensor:
    """Return how the hand is turned in the world, (w, x, y, z), ``(num_envs, 4)``."""
    return site_orientations(env, ee_frame_cfg)[:, 0]


def gripper_pos(env: ManagerEnv, fingers_cfg: SceneEntity = _FINGERS) -> torch.Tensor:
    """Return the position of one finger and that of the other with its sign turned, in m."""
    left, right = columns(env.sim.data.qpos, fingers_cfg.qpos_ids).unbind(1)
    return torch.stack((left, -right), dim=1)


def object_grasped(
    env: ManagerEnv,
    object_cfg: SceneEntity,
    diff_threshold: float = 0.06,
    gripper_threshold: float = 0.005,
    ee_frame_cfg: SceneEntity = _EE,
    fingers_cfg: SceneEntity = _FINGERS,
) -> torch.Tensor:
    """Return 1 where the fingers are not open near a cube, else 0, ``(num_envs, 1)``."""
    grasped = _is_grasped(
        env, object_cfg, diff_threshold, gripper_threshold, ee_frame_cfg, fingers_cfg
    )
    return grasped.float().unsqueeze(1)


def object_stacked(
    env: ManagerEnv,
    upper_object_cfg: SceneEntity,
    lower_object_cfg: SceneEntity,
    xy_threshold: float = 0.05,
    height_threshold: float = 0.005,
    height_diff: float = 0.0468,
    fingers_cfg: SceneEntity = _FINGERS,
) -> torch.Tensor:
    """Return 1 where open fingers have left a cube on another, else 0, ``(num_envs, 1)``."""
    is_on = _is_on(
        env, upper_object_cfg, lower_object_cfg, xy_threshold, height_diff + height_threshold
    )
    return (is_on & _fingers_are_open(env, fingers_cfg)).float().unsqueeze(1)


# Terminations and rewards -------------------------------------------------------------------------


def cubes_stacked(
    env: ManagerEnv,
    xy_threshold: float = 0.04,
    height_threshold: float = 0.005,
    height_diff: float = 0.0468,
    cube_1_cfg: SceneEntity = _CUBE_1,
    cube_2_cfg: SceneEntity = _CUBE_2,
    cube_3_cfg: SceneEntity = _CUBE_3,
    fingers_cfg: SceneEntity = _FINGERS,
) -> torch.Tensor:
    """Return whether cube 3 is on 2 and 2 on 1, and the fingers are open, bool ``(num_envs,)``."""
    height = height_diff + height_threshold
    below = _is_on(env, cube_2_cfg, cube_1_cfg, xy_threshold, height)
    above = _is_on(env, cube_3_cfg, cube_2_cfg, xy_threshold, height)
    return below & above & _fingers_are_open(env, fingers_cfg)


def subtasks_done(
    env: ManagerEnv,
    cube_1_cfg: SceneEntity = _CUBE_1,
    cube_2_cfg: SceneEntity = _CUBE_2,
    cube_3_cfg: SceneEntity = _CUBE_3,
    ee_frame_cfg: SceneEntity = _EE,
    fingers_cfg: SceneEntity = _FINGERS,
) -> torch.Tensor:
    """Return how many subtasks of three are done, as a share, ``(num_envs,)``: a reward of ours.

    1/3 while cube 2 is grasped, 2/3 while it is on cube 1, and 1 while cube 3 is also grasped.
    """
    grasps = [
        _is_grasped(env, cube, 0.06, 0.005, ee_frame_cfg, fingers_cfg)
        for cube in (cube_2_cfg, cube_3_cfg)
    ]
    is_on = _is_on(env, cube_2_cfg, cube_1_cfg, 0.05, 0.0518)
    return torch.where(is_on, 2.0 + grasps[1], grasps[0].float()) / 3.0


# Events -------------------------------------------------------------------------------------------


def randomize_joint_by_gaussian_offset(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    mean: float,
    std: float,
    asset_cfg: SceneEntity,
) -> None:
    """Reset joints to their defaults plus normal offsets, within their limits, at rest."""
    defaults = columns(env.default_qpos, asset_cfg.qpos_ids)
    offsets = stream.normal(mean, std, len(asset_cfg.joint_names))
    env.reset_qpos[:, asset_cfg.qpos_ids] = (defaults + offsets).clamp(
        *joint_limits(env, asset_cfg)
    )


def randomize_object_pose(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    pose_range: dict[str, tuple[float, float]],
    min_separation: float,
    cube_1_cfg: SceneEntity = _CUBE_1,
    cube_2_cfg: SceneEntity = _CUBE_2,
    cube_3_cfg: SceneEntity = _CUBE_3,
) -> None:
    """Reset each cube to a pose of a range, ``min_separation``, in m, from those before it.

    If no drawn place is that far away, the most distant of them is taken.

    Raises:
        ConfigurationError: If the range names something else than Isaac Lab's six axes.
    """
    ranges = six_ranges(pose_range, "pose_range")
    placed: list[torch.Tensor] = []
    for cube in (cube_1_cfg, cube_2_cfg, cube_3_cfg):
        drawn = stream.ranges(ranges[:3] * NUM_CANDIDATES, mask).view(-1, NUM_CANDIDATES, 3)
        placed.append(first_apart(drawn, placed, min_separation))
        env.reset_qpos[:, cube.root_pos] = placed[-1] + env.env_origins
        turn = stream.ranges(ranges[3:], mask)
        env.reset_qpos[:, cube.root_quat] = quat_from_angles(turn)


def first_apart(
    drawn: torch.Tensor, placed: Sequence[torch.Tensor], separation: float
) -> torch.Tensor:
    """Return the first of ``(num_envs, num_candidates, 3)`` that is far enough from all placed."""
    if not placed:
        return drawn[:, 0]
    distances = [torch.linalg.vector_norm(drawn - one[:, None], dim=2) for one in placed]
    # Far enough is far enough: of those that are, the earliest has the highest score.
    score = torch.stack(distances).amin(dim=0).clamp(max=1.001 * separation)
    order = torch.arange(NUM_CANDIDATES, device=drawn.device) * (1e-6 * separation)
    chosen = (score - order).argmax(dim=1)
    return drawn.gather(1, chosen.view(-1, 1, 1).expand(-1, 1, 3))[:, 0]


def _position(env: ManagerEnv, cube: SceneEntity) -> torch.Tensor:
    return env.sim.data.qpos[:, cube.root_pos] - env.env_origins


def _is_grasped(
    env: ManagerEnv,
    cube: SceneEntity,
    diff_threshold: float,
    gripper_threshold: float,
    ee_frame_cfg: SceneEntity,
    fingers_cfg: SceneEntity,
) -> torch.Tensor:
    way = _position(env, cube) - ee_frame_pos(env, ee_frame_cfg)
    fingers = columns(env.sim.data.qpos, fingers_cfg.qpos_ids)
    is_closed = ((fingers - FINGERS_OPEN_M).abs() > gripper_threshold).all(dim=1)
    return is_closed & (torch.linalg.vector_norm(way, dim=1) < diff_threshold)


def _is_on(
    env: ManagerEnv, upper: SceneEntity, lower: SceneEntity, xy_threshold: float, height: float
) -> torch.Tensor:
    """Return whether a cube is above another, by less than ``height`` in m, and little aside."""
    way = _position(env, upper) - _position(env, lower)
    aside = torch.linalg.vector_norm(way[:, :2], dim=1)
    return (aside < xy_threshold) & (way[:, 2] > 0.0) & (way[:, 2] < height)


def _fingers_are_open(env: ManagerEnv, fingers_cfg: SceneEntity) -> torch.Tensor:
    fingers = columns(env.sim.data.qpos, fingers_cfg.qpos_ids)
    is_open = (fingers - FINGERS_OPEN_M).abs() <= 1e-4 + 1e-4 * FINGERS_OPEN_M
    return is_open.all(dim=1)
