"""Inverse kinematics in each physics step, weighed against joint limits and a posture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from envlab.envs.controlled_frame import FRAME_FIELDS, ControlledFrame, Pose
from envlab.envs.differential_ik import pose_error
from envlab.envs.entities import SceneEntityCfg, joint_values
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.math import apply_delta_pose, normalize
from envlab.envs.mdp.controls import Bounds
from envlab.envs.mdp.events import position_limits

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

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
