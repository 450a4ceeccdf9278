"""Actions in the space of a frame of the robot, by differential inverse kinematics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from envlab.envs.controlled_frame import FRAME_FIELDS, ControlledFrame, Pose
from envlab.envs.differential_ik import (
    DifferentialIKControllerCfg,
    joint_displacements,
    pose_error,
)
from envlab.envs.entities import SceneEntityCfg
from envlab.envs.frames import OffsetCfg
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.math import (
    normalize,
    quat_apply,
    quat_box_minus,
    quat_from_rotation_vector,
    quat_mul,
    subtract_frame_transforms,
)
from envlab.envs.mdp.controls import Bounds

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class DifferentialInverseKinematicsActionCfg(ActionTermCfg):
    """Goals or displacements for a frame of the robot; for position actuators.

    Commands are in the frame of the robot's topmost body: positions in m; orientations as (w, x, y,
    z), or, if relative, as rotation vectors in rad.
    """

    joint_names: str | list[str]
    """Joints to move; regular expressions."""
    body_name: str
    """Body to which the frame is fixed."""
    body_offset: OffsetCfg = field(default_factory=OffsetCfg)
    """The frame, relative to the body's."""
    scale: float = 1.0
    """Command per unit of action; :attr:`clip` bounds the result."""
    controller: DifferentialIKControllerCfg = field(default_factory=DifferentialIKControllerCfg)
    """Kind of command and method."""
    each_substep: bool = False
    """Whether the goal is converted to joint positions before each physics step, as in Isaac Lab,
    instead of once a control step."""

    @property
    def data_fields(self) -> tuple[str, ...]:
        return FRAME_FIELDS

    def build(self, env: VectorEnv) -> DifferentialInverseKinematicsAction:
        return DifferentialInverseKinematicsAction(self, env)


class DifferentialInverseKinematicsAction(ActionTerm):
    """The term of a :class:`DifferentialInverseKinematicsActionCfg`.

    Raises:
        ConfigurationError: If the body's name matches several.
    """

    def __init__(self, cfg: DifferentialInverseKinematicsActionCfg, env: VectorEnv) -> None:
        self.frame = ControlledFrame(
            "an inverse kinematics action",
            env,
            SceneEntityCfg(cfg.asset_name, cfg.joint_names, cfg.body_name),
            cfg.body_offset,
        )
        self._cfg, self._sim, self._clip = cfg, env.sim, Bounds(cfg.clip, (), env.device)
        self._params = cfg.controller.params()
        self.dim = cfg.controller.action_dim
        self.control_each_substep = cfg.each_substep

    def apply(self, actions: torch.Tensor) -> None:
        commands = actions * self._cfg.scale
        self._clip.apply(commands)
        self._goal = self.goal(commands, *self.frame.pose())
        if not self.control_each_substep:
            self.control()

    def control(self) -> None:
        controller = self._cfg.controller
        pos, quat = self.frame.pose()
        goal_pos, goal_quat = self._goal
        error = pose_error(pos, quat, goal_pos, goal_quat)
        jacobian = self.frame.jacobian(pos)
        if controller.command_type == "position":
            jacobian, error = jacobian[:, :3], error[:, :3]
        moves = joint_displacements(jacobian, error, controller.ik_method, self._params)
        targets = self.frame.joint_pos + moves
        self._sim.ctrl.index_copy_(1, self.frame.actuators, targets)

    def goal(self, commands: torch.Tensor, pos: torch.Tensor, quat: torch.Tensor) -> Pose:
        """Return the frame's goal in the world, by default with its current orientation."""
        controller = self._cfg.controller
        root_pos, root_quat = self.frame.root_pose()
        if not controller.use_relative_mode:
            goal = root_pos + quat_apply(root_quat, commands[:, :3])
            if controller.command_type == "position":
                return goal, quat
            return goal, quat_mul(root_quat, normalize(commands[:, 3:]))
        goal = pos + quat_apply(root_quat, commands[:, :3])
        if controller.command_type == "position":
            return goal, quat
        turn = quat_from_rotation_vector(quat_apply(root_quat, commands[:, 3:]))
        return goal, quat_mul(turn, quat)

    def actions_to(self, pos: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        """Return the actions whose :meth:`goal` is a pose, ``(num_envs, dim)``.

        Args:
            pos: Position in the frame of the robot's topmost body, in m, ``(num_envs, 3)``.
            quat: Orientation in that frame, (w, x, y, z), ``(num_envs, 4)``; without effect on an
                action of positions alone.
        """
        controller = self._cfg.controller
        parts = [pos, quat]
        if controller.use_relative_mode:
            now_pos, now_quat = self.pose()
            parts = [pos - now_pos, quat_box_minus(quat, now_quat)]
        if controller.command_type == "position":
            parts = parts[:1]
        return torch.cat(parts, dim=1) / self._cfg.scale

    def pose(self) -> Pose:
        """Return the frame's pose in that of the robot's topmost body."""
        return subtract_frame_transforms(*self.frame.root_pose(), *self.frame.pose())

    @property
    def turns(self) -> bool:
        """Whether actions also have orientations."""
        return self._cfg.controller.command_type != "position"

    @property
    def offset(self) -> OffsetCfg:
        """The frame, relative to its body."""
        return self._cfg.body_offset
