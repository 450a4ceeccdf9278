"""A policy by hand for the cabinet's direct task, whose actions move the joints' targets."""

from __future__ import annotations

import torch

from envlab.envs import SceneEntityCfg
from envlab.envs.controlled_frame import ControlledFrame, joint_displacements, pose_error
from envlab.envs.math import combine_frame_transforms
from envlab_tasks.manipulation import franka
from envlab_tasks.manipulation.drawer import PullingHand
from envlab_tasks.manipulation.franka_cabinet.franka_cabinet_env import FrankaCabinetEnv

FINGERS_ACTION = 0.3
"""Action that opens the fingers, or, negative, closes them in 0.2 s."""


class SteeredArm:
    """An arm whose targets' speeds are controlled, moved by poses of the grasp point.

    Speeds follow from the joints' positions and velocities, not from their targets, which no
    observation has. Integrated targets make an arm of low damping swing; what keeps it still is a
    brake by the joints' velocities, which the targets integrate into stiffness: with a gain of g and
    a brake of b, a joint of inertia I and damping d is stable for g (1 - b d / I) < d / I.
    """

    GAIN = 7.0
    """Speed per displacement, in 1/s."""
    BRAKE_S = 0.65
    """Displacement that a joint's velocity takes away, in s."""
    TURN_RAD = 0.5
    """Largest turn that the hand is asked for at once."""
    DAMPING = 0.05
    """Of inverse kinematics, so that a stretched arm does not whirl."""

    def __init__(self, env: FrankaCabinetEnv) -> None:
        parts = SceneEntityCfg("robot", joint_names=franka.ARM, body_names="panda_hand")
        self.frame = ControlledFrame("a policy by hand", env, parts, franka.GRASP_POINT)
        self._speed = env.cfg.action_scale

    def actions_to(self, pos: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        """Return actions, ``(num_envs, 7)``, see :meth:`franka.SwungArm.actions_to`."""
        frame = self.frame
        now = frame.pose()
        error = pose_error(*now, *combine_frame_transforms(*frame.root_pose(), pos, quat))
        turn = error[:, 3:].norm(dim=1, keepdim=True).clamp(min=1e-6)
        error[:, 3:] *= (self.TURN_RAD / turn).clamp(max=1.0)
        moves = joint_displacements(
            frame.jacobian(now[0]), error, "dls", {"lambda_val": self.DAMPING}
        )
        speeds = self.GAIN * (moves - self.BRAKE_S * frame.joint_vel)
        return (speeds / self._speed).clamp(-1.0, 1.0)


class CabinetHand:
    """Pulls the drawer until the episode ends."""

    def __init__(self, env: FrankaCabinetEnv) -> None:
        self._hand = PullingHand(env, franka.Hand(env, SteeredArm(env)))

    def act(self) -> torch.Tensor:
        """Return actions, ``(num_envs, 9)``."""
        arm, closes = self._hand.decide()
        fingers = torch.where(closes, -FINGERS_ACTION, FINGERS_ACTION).unsqueeze(1)
        return torch.cat((arm, fingers, fingers), dim=1)
