"""A policy by hand for Lift: approach from above, grasp, carry to the goal.

It decides by the present state alone, so that a policy without a memory can imitate it.
"""

from __future__ import annotations

import torch

from envlab.envs import ManagerEnv, SceneEntityCfg
from envlab.envs.entities import columns, resolve_entity
from envlab.envs.math import subtract_frame_transforms
from envlab_tasks.manipulation import franka

DOWN = (0.0, 1.0, 0.0, 0.0)
"""Orientation of the hand with its fingers down, (w, x, y, z)."""
ABOVE_M = 0.1
"""Height above the cube at which the hand approaches it."""
STEEPNESS = 4.0
"""Height above the cube per distance from its vertical, so that the hand comes down a funnel."""
ALIGNED_M = 0.01
"""Distance from the vertical at which the hand may be at the cube's height."""
GRASPABLE_M = 0.02
"""Distance from the cube at which fingers close."""
HELD_M = 0.035
"""Largest distance of a cube that is held."""
CLOSED_M = 0.03
"""Position of a finger below which it touches the cube, whose half is 0.024 m; open: 0.04 m."""


class LiftingHand:
    """Grasps the cube, and carries it to the goal; starts over if it falls."""

    def __init__(self, env: ManagerEnv) -> None:
        self._env, self._hand = env, franka.Hand(env)
        fingers = SceneEntityCfg("robot", joint_names=franka.FINGERS)
        self._fingers = resolve_entity(fingers, env.sim.model, env.device).qpos_ids

    def act(self) -> torch.Tensor:
        """Return actions, ``(num_envs, num_actions)``."""
        env, (pos, _) = self._env, self._hand.pose()
        cube, _ = subtract_frame_transforms(
            *self._hand.root_pose(),
            env.scene["object"].data.root_pos_w,
            env.scene["object"].data.root_quat_w,
        )
        away = cube - pos
        distance, aside = away.norm(dim=1), away[:, :2].norm(dim=1)
        fingers = columns(env.sim.data.qpos, self._fingers).mean(dim=1)
        is_held = (fingers < CLOSED_M) & (distance < HELD_M)
        above = torch.zeros_like(cube)
        above[:, 2] = (STEEPNESS * (aside - ALIGNED_M)).clamp(0.0, ABOVE_M)
        goal = env.command_manager.get_command("object_pose")[:, :3]
        wanted = torch.where(is_held.unsqueeze(1), goal, cube + above)
        closes = is_held | (distance < GRASPABLE_M)
        gripper = torch.where(closes, -1.0, 1.0).unsqueeze(1)
        down = cube.new_tensor([DOWN]).expand(len(cube), -1)
        return torch.cat((self._hand.towards(wanted, down), gripper), dim=1)
