"""A policy by hand for the cabinet's direct task: grasp the handle from the front, and pull.

It decides by the present state alone, so that a policy without a memory can imitate it.
"""

from __future__ import annotations

import torch

from envlab.envs import SceneEntityCfg
from envlab.envs.controlled_frame import ControlledFrame, joint_displacements, pose_error
from envlab.envs.entities import columns, resolve_entity
from envlab.envs.math import quat_apply
from envlab_tasks.manipulation import franka
from envlab_tasks.manipulation.franka_cabinet.franka_cabinet_env import FrankaCabinetEnv

FORWARD = (0.5, 0.5, 0.5, 0.5)
"""Orientation of the hand into the drawer with its left finger on top, (w, x, y, z)."""
BEFORE_M = 0.12
"""Largest distance before the handle at which a hand that is not aligned with it waits."""
STEEPNESS = 4.0
"""Distance before the handle per distance aside, so that the hand goes down a funnel."""
PER_RAD = 0.3
"""Distance before the handle per angle off, in m/rad."""
ALIGNED_M, ALIGNED_RAD = 0.01, 0.1
"""Distance aside and angle off at which the hand may be at the handle."""
ALONG_M = 0.03
"""Distance along the handle, which is 0.15 m wide, that does not matter."""
AROUND_M = (0.01, 0.05, 0.012)
"""Largest distances from the handle, in depth, along it and in height, at which fingers close."""
HELD_M = (0.025, 0.06, 0.025)
"""Likewise, of a handle that is held; wider, so that a student whose grasp is not exact does not
let go."""
CLOSED_M = (0.005, 0.014)
"""Positions of a finger between which it holds the handle, whose half is 0.01 m; open: 0.04 m."""
LEAD_M, LEAD_RAD = 0.2, 0.5
"""Farthest that the hand is asked to go and to turn at once; it pulls as far ahead of itself."""
FINGERS_ACTION = 0.3
"""Action that opens the fingers, or, negative, closes them in 0.2 s."""
DAMPING = 0.05
"""Of inverse kinematics, so that a stretched arm does not whirl."""
GAIN = 7.0
"""Speed of the targets per displacement of the joints, in 1/s."""
BRAKE_S = 0.65
"""Displacement that a joint's velocity takes away, in s. Targets follow from positions and
velocities alone, because no observation has the targets. With a gain g and without a brake, joints
of inertia I and damping d swing from g > d / I, which is 1.3 /s for the arm at the handle; a brake
b keeps them stable for g (1 - b d / I) < d / I."""


class PullingHand:
    """Grasps the handle and pulls until the episode ends; starts over if the handle slips."""

    def __init__(self, env: FrankaCabinetEnv) -> None:
        self._env, model = env, env.sim.model
        parts = SceneEntityCfg("robot", joint_names=franka.ARM, body_names="panda_hand")
        self._frame = ControlledFrame("a policy by hand", env, parts, franka.GRASP_POINT)
        fingers = SceneEntityCfg("robot", joint_names=franka.FINGERS)
        self._fingers = resolve_entity(fingers, model, env.device).qpos_ids
        handle, new = model.site("drawer_handle_top"), env.actions.new_tensor
        self._drawer = int(model.site_bodyid[handle.id])
        self._offset = new(handle.pos).expand(env.num_envs, 3)
        self._forward = new(FORWARD).expand(env.num_envs, 4)
        self._around, self._held = new(AROUND_M), new(HELD_M)

    def act(self) -> torch.Tensor:
        """Return actions, ``(num_envs, 9)``."""
        data, (pos, quat) = self._env.sim.data, self._frame.pose()
        handle = data.xpos[:, self._drawer] + quat_apply(data.xquat[:, self._drawer], self._offset)
        away = handle - pos
        _, along, above = away.abs().unbind(dim=1)
        aside = above + (along - ALONG_M).clamp(min=0.0)
        turn = pose_error(pos, quat, pos, self._forward)[:, 3:]
        angle = turn.norm(dim=1)
        opened = columns(data.qpos, self._fingers).mean(dim=1)
        is_held = (opened > CLOSED_M[0]) & (opened < CLOSED_M[1])
        is_held &= (away.abs() < self._held).all(dim=1)
        closes = is_held | (away.abs() < self._around).all(dim=1)
        before = STEEPNESS * (aside - ALIGNED_M) + PER_RAD * (angle - ALIGNED_RAD).clamp(min=0.0)
        away[:, 0] -= torch.where(is_held, LEAD_M, before.clamp(0.0, BEFORE_M))
        fingers = torch.where(closes, -FINGERS_ACTION, FINGERS_ACTION).unsqueeze(1)
        return torch.cat((self._steer(pos, away, turn), fingers, fingers), dim=1)

    def _steer(self, pos: torch.Tensor, away: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Return the arm's actions for a displacement, in m, and a rotation vector of the hand."""
        error = torch.cat((_shortened(away, LEAD_M), _shortened(turn, LEAD_RAD)), dim=1)
        moves = joint_displacements(
            self._frame.jacobian(pos), error, "dls", {"lambda_val": DAMPING}
        )
        speeds = GAIN * (moves - BRAKE_S * self._frame.joint_vel)
        return (speeds / self._env.cfg.action_scale).clamp(-1.0, 1.0)


def _shortened(vectors: torch.Tensor, length: float) -> torch.Tensor:
    """Return vectors, ``(num_envs, 3)``, that are at most ``length`` long."""
    return vectors * (length / vectors.norm(dim=1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0)
