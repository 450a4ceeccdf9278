"""Actions in the space of a frame of the robot, by inverse kinematics: as Isaac Lab's, and mjlab's.

Isaac Lab's is solved once for a step; mjlab's in each physics step, weighed against joint limits
and a posture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from envlab.envs.controlled_frame import (
    FRAME_FIELDS,
    ControlledFrame,
    DifferentialIKControllerCfg,
    Pose,
    joint_displacements,
    pose_error,
)
from envlab.envs.entities import SceneEntityCfg, joint_values
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.math import (
    apply_delta_pose,
    normalize,
    quat_apply,
    quat_box_minus,
    quat_from_rotation_vector,
    quat_mul,
    subtract_frame_transforms,
)
from envlab.envs.mdp._controls import Bounds
from envlab.envs.mdp.events import position_limits
from envlab.envs.spec_sensors import OffsetCfg

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


_LEAST_DAMPING = 1e-6
"""Of mjlab; without any, a singular arm has no solution."""


@dataclass(kw_only=True)
class DifferentialIKActionCfg(ActionTermCfg):
    """Goals or displacements for a frame, in the world's axes; for position actuators.

    Before each physics step, joints move by the damped least squares of the weighted errors of the
    frame, of joints beyond their limits, and of the posture.
    """

    joint_names: str | list[str]
    """Joints to move; regular expressions."""
    frame_type: Literal["body", "site", "geom"] = "body"
    """The kind of part that carries the frame."""
    frame_name: str
    """Its name."""
    use_relative_mode: bool = True
    """Whether actions displace the frame, or are its goal: (x, y, z) in m and (w, x, y, z)."""
    delta_pos_scale: float = 1.0
    """Displacement in m per unit of action."""
    delta_ori_scale: float = 1.0
    """Turn in rad per unit of action, which is a rotation vector."""
    damping: float = 0.05
    """Damping of the least squares."""
    max_dq: float = 0.5
    """Largest distance of a joint's target from its position, in rad or m."""
    position_weight: float = 1.0
    """Weight of the position's error."""
    orientation_weight: float = 1.0
    """Weight of the orientation's error; at 0, actions have no orientation."""
    joint_limit_weight: float = 0.0
    """Weight of joints' way back to their range."""
    posture_weight: float = 0.0
    """Weight of joints' distance from the posture."""
    posture_target: dict[str, float] | None = None
    """Positions of the posture by regular expressions of joints; of the others, and without any,
    those of the pose in which episodes start."""

    @property
    def data_fields(self) -> tuple[str, ...]:
        return FRAME_FIELDS

    def build(self, env: VectorEnv) -> DifferentialIKAction:
        return DifferentialIKAction(self, env)


class DifferentialIKAction(ActionTerm):
    """The term of a :class:`DifferentialIKActionCfg`."""

    control_each_substep = True

    def __init__(self, cfg: DifferentialIKActionCfg, env: VectorEnv) -> None:
        """Look up names.

        Raises:
            ConfigurationError: For names that match nothing or several.
        """
        parts = SceneEntityCfg(cfg.asset_name, cfg.joint_names)
        setattr(parts, f"{cfg.frame_type}_names", cfg.frame_name)
        self.frame = ControlledFrame("an inverse kinematics action", env, parts)
        self._cfg, self._sim, self._clip = cfg, env.sim, Bounds(cfg.clip, (), env.device)
        names, model = self.frame.joint_names, env.sim.model
        self._low, self._high = position_limits(env, names)
        columns = [int(model.jnt_qposadr[model.joint(name).id]) for name in names]
        self._posture = env.default_qpos[:, columns].clone()
        for pattern, value in (cfg.posture_target or {}).items():
            chosen = joint_values({pattern: 1.0}, names, default=0.0)
            self._posture[0, torch.tensor(chosen, device=env.device) > 0.0] = value
        weights = (cfg.position_weight, cfg.orientation_weight)
        self._weights = torch.tensor([w * w for w in weights for _ in range(3)], device=env.device)
        self.dim = 3 if cfg.orientation_weight <= 0.0 else 6 if cfg.use_relative_mode else 7

    def apply(self, actions: torch.Tensor) -> None:
        actions = actions.clone()
        self._clip.apply(actions)
        self._goal = self._find_goal(actions)

    def control(self) -> None:
        moves = self.moves().clamp(-self._cfg.max_dq, self._cfg.max_dq)
        self._sim.ctrl.index_copy_(1, self.frame.actuators, self.frame.joint_pos + moves)

    def moves(self) -> torch.Tensor:
        """Return the displacements of the joints before their bounds, ``(num_envs, num_joints)``.

        With the weighted Jacobian ``J`` of all errors ``e``: ``(J^T J + damping^2 I)^-1 J^T e``.
        """
        cfg, now = self._cfg, self.frame.joint_pos
        pos, quat = self.frame.pose()
        goal_pos, goal_quat = self._goal
        jacobian = self.frame.jacobian(pos)
        weighted = jacobian.mT * self._weights
        beyond = (self._high - now).clamp(max=0.0) + (self._low - now).clamp(min=0.0)
        limits = cfg.joint_limit_weight**2 * (beyond != 0.0)
        posture = cfg.posture_weight**2
        damping = max(cfg.damping, _LEAST_DAMPING) ** 2
        error = pose_error(pos, quat, goal_pos, goal_quat)
        wanted = (weighted @ error.unsqueeze(2)).squeeze(2)
        wanted = wanted + limits * beyond + posture * (self._posture - now)
        matrix = weighted @ jacobian + torch.diag_embed(limits + (posture + damping))
        factor, _ = torch.linalg.cholesky_ex(matrix)  # solve() would wait for a GPU
        return torch.cholesky_solve(wanted.unsqueeze(2), factor).squeeze(2)

    def _find_goal(self, actions: torch.Tensor) -> Pose:
        cfg, (pos, quat) = self._cfg, self.frame.pose()
        if not cfg.use_relative_mode:
            return actions[:, :3], quat.clone() if self.dim == 3 else normalize(actions[:, 3:])
        way = actions[:, :3] * cfg.delta_pos_scale
        if self.dim == 3:
            return pos + way, quat.clone()
        turn = actions[:, 3:] * cfg.delta_ori_scale
        return apply_delta_pose(pos, quat, torch.cat((way, turn), dim=1))
