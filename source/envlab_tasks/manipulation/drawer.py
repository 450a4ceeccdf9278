"""A policy by hand that pulls a drawer out: grasp the handle from the front, pull, hold.

It decides by the present state alone, so that a policy without a memory can imitate it. Scenes have
the drawer of ``envlab_assets:robots/cabinet.xml`` before the robot, whose x axis points into it.
"""

from __future__ import annotations

import torch

from envlab.envs import SceneEntityCfg
from envlab.envs.controlled_frame import pose_error
from envlab.envs.entities import columns, resolve_entity
from envlab.envs.math import quat_apply, subtract_frame_transforms
from envlab.envs.vector_env import VectorEnv
from envlab_tasks.manipulation import franka

FORWARD = (0.5, 0.5, 0.5, 0.5)
"""Orientation of the hand into the drawer with its left finger on top, (w, x, y, z)."""
BEFORE_M = 0.12
"""Largest distance before the handle at which a hand that is not aligned with it waits."""
STEEPNESS = 4.0
"""Distance before the handle per distance aside, so that the hand comes down a funnel."""
PER_RAD = 0.3
"""Distance before the handle per angle off, in m/rad."""
ALIGNED_M, ALIGNED_RAD = 0.01, 0.1
"""Distance aside and angle off at which the hand may be at the handle."""
ALONG_M = 0.03
"""Distance along the handle, which is 0.15 m wide, that does not matter."""
AROUND_M = (0.015, 0.05, 0.012)
"""Largest distances from the handle, in depth, along it and in height, at which fingers close."""
CLOSED_M = 0.013
"""Position of a finger below which it touches the handle, whose half is 0.01 m; open: 0.04 m."""
LEAD_M = 0.2
"""Farthest that the hand goes in a step, and how far ahead of itself it pulls."""
OPEN_M = 0.6
"""Opening to which it pulls, beyond the drawer's stop at 0.4 m; pulled harder there, fingers slip."""


class PullingHand:
    """Grasps the handle and pulls; starts over if it slips off."""

    def __init__(self, env: VectorEnv, hand: franka.Hand) -> None:
        self._env, self._hand = env, hand
        model = env.sim.model
        fingers = SceneEntityCfg("robot", joint_names=franka.FINGERS)
        self._fingers = resolve_entity(fingers, model, env.device).qpos_ids
        handle = model.site("drawer_handle_top")
        self._drawer = int(handle.bodyid[0])
        new = env.actions.new_tensor
        self._offset = new(handle.pos).expand(env.num_envs, 3)
        self._forward = new(FORWARD).expand(env.num_envs, 4)
        self._around = new(AROUND_M)
        joint = SceneEntityCfg("cabinet", joint_names="drawer_top_joint")
        self._opening = resolve_entity(joint, model, env.device).qpos_ids

    def decide(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return actions of the arm, and whether the fingers close, bool ``(num_envs,)``."""
        data, (pos, quat) = self._env.sim.data, self._hand.pose()
        drawer = data.xpos[:, self._drawer], data.xquat[:, self._drawer]
        handle, _ = subtract_frame_transforms(
            *self._hand.root_pose(), drawer[0] + quat_apply(drawer[1], self._offset), drawer[1]
        )
        away = handle - pos
        angle = pose_error(pos, quat, pos, self._forward)[:, 3:].norm(dim=1)
        _, along, above = away.abs().unbind(dim=1)
        aside = above + (along - ALONG_M).clamp(min=0.0)
        is_around = (away.abs() < self._around).all(dim=1)
        is_held = is_around & (columns(data.qpos, self._fingers).mean(dim=1) < CLOSED_M)
        before = STEEPNESS * (aside - ALIGNED_M) + PER_RAD * (angle - ALIGNED_RAD).clamp(min=0.0)
        pull = (OPEN_M - columns(data.qpos, self._opening)[:, 0]).clamp(max=LEAD_M)
        handle[:, 0] -= torch.where(is_held, pull, before.clamp(0.0, BEFORE_M))
        return self._hand.towards(handle, self._forward, LEAD_M), is_around
