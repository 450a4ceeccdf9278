"""A hand that a person moves: pushes of axes become actions of a task's robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from envlab.envs import ManagerEnv
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.managers.term import terms_of
from envlab.envs.math import quat_box_minus, quat_from_rotation_vector, quat_mul
from envlab.envs.mdp.actions import JointAction, JointPositionActionCfg
from envlab.envs.mdp.ik_actions import DifferentialInverseKinematicsAction
from envlab.envs.mdp.joint_actions import BinaryJointAction
from envlab.errors import ConfigurationError
from envlab.training.viewing import NUM_AXES, Handles

SPEED, TURN = 0.25, 1.0
"""Of a frame whose axis is pushed all the way, in m/s and rad/s."""
JOINT_SPEED = 0.6
"""Of a joint, in rad/s, or m/s."""
LEAD, TURN_LEAD, JOINT_LEAD = 0.1, 0.5, 0.3
"""How far a goal may be from where the robot is, in m, rad, and rad or m."""


class Hand:
    """Moves goals of environment 0's action terms as a person pushes, and closes its gripper."""

    def __init__(self, env: ManagerEnv, task_id: str) -> None:
        """Find the terms.

        Raises:
            ConfigurationError: If a person cannot move one of them, or these are too many axes.
        """
        self._parts = {
            name: _part_of(env, name, cfg, task_id)
            for name, cfg in terms_of(env.cfg.actions, ActionTermCfg).items()
        }
        axes = tuple(axis for part in self._parts.values() for axis in part.axes)
        if not 1 <= len(axes) <= NUM_AXES:
            raise ConfigurationError(
                f"The actions of {task_id} have {len(axes)} axes, but a hand moves 1 to {NUM_AXES} "
                "of them. Name a task of one arm."
            )
        is_gripper = [isinstance(part, _Gripper) for part in self._parts.values()]
        self.handles = Handles(axes=axes, has_gripper=any(is_gripper))
        self.is_closed = False
        """Whether grippers close."""

    def restart(self) -> None:
        """Begin where the robot is, with an open gripper."""
        self.is_closed = False
        for part in self._parts.values():
            part.restart()

    def act(self, pushes: Sequence[float]) -> torch.Tensor:
        """Return the actions of a step, ``(1, num_actions)``.

        Args:
            pushes: How far each of the handles' axes is pushed, -1 to 1; empty: none is.
        """
        pushed = torch.tensor(pushes or [0.0] * len(self.handles.axes))
        actions, start = [], 0
        for part in self._parts.values():
            end = start + len(part.axes)
            actions.append(part.act(pushed[start:end], self.is_closed))
            start = end
        return torch.cat(actions, dim=1)


class _Part(Protocol):
    """An action term that a person moves."""

    axes: tuple[str, ...]

    def restart(self) -> None: ...

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor: ...


class _Frame:
    """A frame's pose; pushes are velocities along and about the axes of the robot's base."""

    def __init__(self, env: ManagerEnv, term: DifferentialInverseKinematicsAction) -> None:
        self._env, self._term = env, term
        moves, turns = ("x", "y", "z"), ("roll", "pitch", "yaw")
        self.axes = moves + (turns if term.turns else ())

    def restart(self) -> None:
        pos, quat = self._term.pose()
        self._pos, self._quat = pos.clone(), quat.clone()

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor:
        pos, quat = self._term.pose()
        pushes, step = pushes.to(pos.device), self._env.step_dt
        move = self._pos + SPEED * step * pushes[:3] - pos
        self._pos = pos + _shortened(move, LEAD)
        if len(self.axes) > 3:
            turned = quat_mul(quat_from_rotation_vector(TURN * step * pushes[None, 3:]), self._quat)
            lead = _shortened(quat_box_minus(turned, quat), TURN_LEAD)
            self._quat = quat_mul(quat_from_rotation_vector(lead), quat)
        return self._term.actions_to(self._pos, self._quat)


class _Joints:
    """Target positions of joints; pushes are their velocities."""

    def __init__(self, env: ManagerEnv, term: JointAction) -> None:
        described = term.describe()
        assert described is not None, "targets of positions are constant"
        self._env, self._ids = env, term.joints.qpos_ids
        self.axes = tuple(described["joint_names"])
        self._scale, self._offset = (
            torch.tensor([described[name]], device=env.device) for name in ("scale", "offset")
        )
        model = env.sim.model
        ranges = [
            model.joint(name).range if model.joint(name).limited[0] else (-torch.inf, torch.inf)
            for name in self.axes
        ]
        self._low, self._high = torch.tensor(
            [tuple(map(float, ends)) for ends in ranges], device=env.device
        ).T

    def restart(self) -> None:
        self._targets = self._env.sim.data.qpos[:, self._ids].clone()

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor:
        now = self._env.sim.data.qpos[:, self._ids]
        targets = self._targets + JOINT_SPEED * self._env.step_dt * pushes.to(now.device)
        targets = targets.clamp(now - JOINT_LEAD, now + JOINT_LEAD)
        self._targets = targets.clamp(self._low, self._high)
        return (self._targets - self._offset) / self._scale


class _Gripper:
    """Joints that open or close together."""

    axes: tuple[str, ...] = ()

    def __init__(self, env: ManagerEnv, term: BinaryJointAction) -> None:
        ends = torch.tensor([[1.0], [-1.0]], device=env.device)
        closes = term.is_closed(ends)
        self._open, self._closed = ends[~closes][:1, None], ends[closes][:1, None]

    def restart(self) -> None: ...

    def act(self, pushes: torch.Tensor, is_closed: bool) -> torch.Tensor:
        return self._closed if is_closed else self._open


def _part_of(env: ManagerEnv, name: str, cfg: ActionTermCfg, task_id: str) -> _Part:
    term: ActionTerm = env.action_manager.get_term(name)
    if isinstance(term, DifferentialInverseKinematicsAction):
        return _Frame(env, term)
    if isinstance(term, JointAction) and isinstance(cfg, JointPositionActionCfg):
        return _Joints(env, term)
    if isinstance(term, BinaryJointAction):
        return _Gripper(env, term)
    raise ConfigurationError(
        f"env.actions.{name} of {task_id} is a {type(cfg).__name__.removesuffix('Cfg')}, but a "
        "hand moves poses by inverse kinematics, joint positions, and grippers that open or close. "
        "Name another task, such as Isaac-Reach-Franka-IK-Rel-v0."
    )


def _shortened(vectors: torch.Tensor, longest: float) -> torch.Tensor:
    """Return vectors of at most that length, ``(num_envs, 3)``."""
    lengths = vectors.norm(dim=1, keepdim=True)
    return vectors * (longest / lengths.clamp(min=longest))
