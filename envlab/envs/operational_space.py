"""Operational-space control over a batch: efforts of joints by which a frame follows commands.

Settings have Isaac Lab's names. With the frame's Jacobian ``J``, its pose error ``e`` and velocity
``v``, and the mass matrix ``M`` of the joints,

- motion control asks for the acceleration ``a = kp e - kd v``, and efforts are ``J^T a``, or, with
  ``inertial_dynamics_decoupling``, ``J^T (J M^-1 J^T)^-1 a`` (Khatib: "A unified approach for
  motion and force control of robot manipulators", 1987),
- force control adds ``J^T`` times a wrench,
- a redundant arm is drawn to a posture by efforts that do not accelerate the frame.

All matrices that are inverted are positive definite, so Cholesky's factors serve, which never wait
for a GPU. Where the arm is singular, ``J M^-1 J^T`` is too, and efforts are not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from envlab.envs.controlled_frame import Pose, pose_error
from envlab.envs.math import (
    apply_delta_pose,
    combine_frame_transforms,
    matrix_from_quat,
    normalize,
    subtract_frame_transforms,
)
from envlab.errors import ConfigurationError, did_you_mean

Target = Literal["pose_abs", "pose_rel", "wrench_abs"]
TARGET_SIZES: dict[str, int] = {"pose_abs": 7, "pose_rel": 6, "wrench_abs": 6}
"""Numbers of each kind of target."""
_IMPEDANCE_SIZES: dict[str, list[int]] = {"fixed": [], "variable_kp": [6], "variable": [6, 6]}
"""Numbers of the gains in a command: stiffness, then damping ratio."""


@dataclass(kw_only=True)
class OperationalSpaceControllerCfg:
    """Kinds of commands, gains and compensations; axes are x, y, z, then turns about them."""

    target_types: list[Target] = field(default_factory=lambda: ["pose_abs"])
    """What a command consists of: ``pose_abs`` (position in m and (w, x, y, z)) or ``pose_rel`` (a
    way in m and a rotation vector in rad), and ``wrench_abs`` (force in N and torque in N m)."""
    motion_control_axes_task: tuple[int, ...] = (1, 1, 1, 1, 1, 1)
    """1 for axes of the task frame along which the pose is controlled."""
    contact_wrench_control_axes_task: tuple[int, ...] = (0, 0, 0, 0, 0, 0)
    """1 for axes along which the wrench is controlled."""
    inertial_dynamics_decoupling: bool = False
    """Whether gains are of accelerations, whatever the arm's inertia, instead of forces."""
    partial_inertial_dynamics_decoupling: bool = False
    """Whether the inertia's coupling of translation and rotation is ignored."""
    gravity_compensation: bool = False
    """Whether the joints are held against gravity."""
    impedance_mode: Literal["fixed", "variable_kp", "variable"] = "fixed"
    """Whether commands end with six stiffnesses, or these and six damping ratios."""
    motion_stiffness_task: float | list[float] = 100.0
    """Stiffness for all axes or each."""
    motion_damping_ratio_task: float | list[float] = 1.0
    """Damping is ``2 sqrt(stiffness)`` times this."""
    motion_stiffness_limits_task: tuple[float, float] = (0.0, 1000.0)
    """Bounds of commanded stiffnesses."""
    motion_damping_ratio_limits_task: tuple[float, float] = (0.0, 100.0)
    """Bounds of commanded damping ratios."""
    contact_wrench_stiffness_task: float | list[float] | None = None
    """Gain of the error between the commanded force and the contacts' force on the body, for all
    axes or each; null: commanded forces are applied as they are. Torques always are."""
    nullspace_control: Literal["none", "position"] = "none"
    """Whether an arm of more than six joints is drawn to a posture."""
    nullspace_stiffness: float = 10.0
    """Stiffness by which it is, an acceleration in rad/s^2 per rad."""
    nullspace_damping_ratio: float = 1.0
    """Damping is ``2 sqrt(stiffness)`` times this."""

    def check(self, num_joints: int) -> None:
        """Refuse settings that do not go together, or are impossible for a number of joints.

        Raises:
            ConfigurationError: With the first of them.
        """
        for name in self.target_types:
            if name not in TARGET_SIZES:
                raise ConfigurationError(
                    f"target_types has {name!r}, but must be of {', '.join(TARGET_SIZES)}."
                    f"{did_you_mean(name, TARGET_SIZES)}"
                )
        kinds = [name.partition("_")[0] for name in self.target_types]
        if not kinds or len({*kinds}) < len(kinds):
            raise ConfigurationError(
                f"target_types is {list(self.target_types)}, but must have a pose, a wrench, or "
                "both."
            )
        if self.contact_wrench_stiffness_task is not None and "wrench" not in kinds:
            raise ConfigurationError(
                "contact_wrench_stiffness_task is given, but target_types has no 'wrench_abs', so "
                "it would have no effect. Add that, or remove the stiffness."
            )
        self._check_joints(num_joints)

    def _check_joints(self, num_joints: int) -> None:
        whole = self.inertial_dynamics_decoupling and not self.partial_inertial_dynamics_decoupling
        if whole and num_joints < 6:
            raise ConfigurationError(
                f"inertial_dynamics_decoupling needs six joints, but the action has {num_joints}. "
                "Name more, or set it to false."
            )
        if self.nullspace_control == "position" and num_joints <= 6:
            raise ConfigurationError(
                f"nullspace_control='position' needs more than six joints, but the action has "
                f"{num_joints}. Name more, or set it to 'none'."
            )


@dataclass(kw_only=True)
class Motion:
    """The state of the robot that a controller needs; frames are the base's."""

    pose: Pose
    """The frame's pose."""
    velocity: torch.Tensor
    """Its velocity, ``(num_envs, 6)``."""
    jacobian: torch.Tensor
    """Of the joints, ``(num_envs, 6, num_joints)``."""
    joint_pos: torch.Tensor
    """``(num_envs, num_joints)``."""
    joint_vel: torch.Tensor
    """``(num_envs, num_joints)``."""
    mass_matrix: torch.Tensor | None = None
    """``(num_envs, num_joints, num_joints)``; None where it is not used."""
    gravity: torch.Tensor | None = None
    """Efforts that hold the joints, ``(num_envs, num_joints)``; None where they are not used."""
    contact_force: torch.Tensor | None = None
    """Force of contacts on the body, ``(num_envs, 3)``; None where it is not measured."""


class OperationalSpaceController:
    """Takes a command, and computes the efforts by which joints follow it."""

    def __init__(
        self, cfg: OperationalSpaceControllerCfg, num_joints: int, device: torch.device
    ) -> None:
        cfg.check(num_joints)
        self._cfg, self._device = cfg, device
        self._sizes = [TARGET_SIZES[name] for name in cfg.target_types]
        self._sizes += _IMPEDANCE_SIZES[cfg.impedance_mode]
        self._stiffness = self._row("motion_stiffness_task", cfg.motion_stiffness_task)
        self._ratio = self._row("motion_damping_ratio_task", cfg.motion_damping_ratio_task)
        self._motion = self._row("motion_control_axes_task", cfg.motion_control_axes_task)
        axes = cfg.contact_wrench_control_axes_task
        self._force = self._row("contact_wrench_control_axes_task", axes)
        self._force_gain: torch.Tensor | None = None
        if cfg.contact_wrench_stiffness_task is not None:
            gain = self._row("contact_wrench_stiffness_task", cfg.contact_wrench_stiffness_task)
            self._force_gain = gain * self._force
        self._turn: torch.Tensor | None = None
        self._goal: Pose | None = None
        self._wrench: torch.Tensor | None = None

    @property
    def sizes(self) -> list[int]:
        """Numbers of each part of a command: targets, stiffness, damping ratio."""
        return self._sizes

    @property
    def needs_mass_matrix(self) -> bool:
        """Whether :attr:`Motion.mass_matrix` is used."""
        return needs_mass_matrix(self._cfg)

    def set_command(self, command: torch.Tensor, pose: Pose, task: Pose | None = None) -> None:
        """Take a command, ``(num_envs, sum(sizes))``.

        Args:
            command: Targets, then gains, in the task frame.
            pose: The controlled frame in that of the base, which relative targets start from.
            task: The task frame in that of the base; None: the base itself.
        """
        cfg, parts = self._cfg, list(command.split(self._sizes, dim=1))
        self._turn = None if task is None else _both_halves(matrix_from_quat(task[1]))
        for kind, target in zip(cfg.target_types, parts, strict=False):
            if kind == "wrench_abs":
                self._wrench = self._in_base(target, task)
            else:
                self._goal = _goal(kind, target, pose, task)
        stiffness, ratio = self._stiffness, self._ratio
        gains = parts[len(cfg.target_types) :]
        if gains:
            stiffness = gains[0].clamp(*cfg.motion_stiffness_limits_task)
        if len(gains) > 1:
            ratio = gains[1].clamp(*cfg.motion_damping_ratio_limits_task)
        stiffness = stiffness * self._motion
        self._kp = self._turned(stiffness)
        self._kd = self._turned(2.0 * stiffness.sqrt() * ratio)

    def compute(self, now: Motion, posture: torch.Tensor | None = None) -> torch.Tensor:
        """Return efforts, ``(num_envs, num_joints)``.

        Args:
            now: The state.
            posture: Positions of the joints to which ``nullspace_control`` draws them,
                ``(1, num_joints)`` or of each environment; None: 0.
        """
        jacobian = now.jacobian
        factor = self._inverse_inertia(now)
        efforts = torch.zeros_like(now.joint_pos)
        if self._goal is not None:
            error = pose_error(*now.pose, *self._goal).unsqueeze(2)
            wanted = self._kp @ error - self._kd @ now.velocity.unsqueeze(2)
            force = self._turned(self._motion) @ self._times_inertia(wanted, factor)
            efforts = efforts + (jacobian.mT @ force).squeeze(2)
        if self._wrench is not None:
            force = self._turned(self._force) @ self._with_feedback(self._wrench, now).unsqueeze(2)
            efforts = efforts + (jacobian.mT @ force).squeeze(2)
        if self._cfg.gravity_compensation:
            assert now.gravity is not None
            efforts = efforts + now.gravity
        if self._cfg.nullspace_control == "position":
            efforts = efforts + self._to_posture(now, posture, factor)
        return efforts

    # ----------------------------------------------------------------------------------------------

    def _row(self, name: str, setting: float | Sequence[float]) -> torch.Tensor:
        values = torch.tensor(setting, dtype=torch.float32, device=self._device)
        if values.shape not in ((), (6,)):
            raise ConfigurationError(
                f"{name} is {setting}, but must be six numbers, or one for all axes."
            )
        return values.expand(1, 6).clone()

    def _turned(self, diagonal: torch.Tensor) -> torch.Tensor:
        """Return the matrix, in the base's axes, that is diagonal in the task's."""
        matrix = torch.diag_embed(diagonal)
        return matrix if self._turn is None else self._turn @ matrix @ self._turn.mT

    def _in_base(self, wrench: torch.Tensor, task: Pose | None) -> torch.Tensor:
        if self._turn is None or task is None:
            return wrench
        force, torque = (self._turn @ wrench.unsqueeze(2)).squeeze(2).split(3, dim=1)
        return torch.cat((force, torque + torch.linalg.cross(task[0], force)), dim=1)

    def _inverse_inertia(self, now: Motion) -> list[torch.Tensor]:
        """Return the factors of ``J M^-1 J^T``, or of its two halves; none without decoupling."""
        if not self._cfg.inertial_dynamics_decoupling:
            return []
        assert now.mass_matrix is not None
        jacobian = now.jacobian
        moved = torch.cholesky_solve(jacobian.mT, _factor(now.mass_matrix))  # M^-1 J^T
        if not self._cfg.partial_inertial_dynamics_decoupling:
            return [_factor(jacobian @ moved)]
        return [_factor(jacobian[:, half] @ moved[:, :, half]) for half in _HALVES]

    def _times_inertia(self, wanted: torch.Tensor, factors: list[torch.Tensor]) -> torch.Tensor:
        """Return the forces that accelerate the frame as wanted, ``(num_envs, 6, 1)``."""
        if not factors:
            return wanted
        if len(factors) == 1:
            return torch.cholesky_solve(wanted, factors[0])
        halves = zip(_HALVES, factors, strict=True)
        return torch.cat(
            [torch.cholesky_solve(wanted[:, half], factor) for half, factor in halves], dim=1
        )

    def _with_feedback(self, wrench: torch.Tensor, now: Motion) -> torch.Tensor:
        if self._force_gain is None:
            return wrench
        assert now.contact_force is not None
        error = torch.cat((wrench[:, :3] - now.contact_force, torch.zeros_like(wrench[:, 3:])), 1)
        return wrench + (self._turned(self._force_gain) @ error.unsqueeze(2)).squeeze(2)

    def _to_posture(
        self, now: Motion, posture: torch.Tensor | None, factors: list[torch.Tensor]
    ) -> torch.Tensor:
        """Return efforts towards a posture, without the part that would move the frame."""
        cfg, jacobian = self._cfg, now.jacobian
        assert now.mass_matrix is not None
        kp = cfg.nullspace_stiffness
        kd = 2.0 * kp**0.5 * cfg.nullspace_damping_ratio
        error = -now.joint_pos if posture is None else posture - now.joint_pos
        wanted = (kp * error - kd * now.joint_vel).unsqueeze(2)
        free = now.mass_matrix @ wanted
        if len(factors) == 1:  # consistent with the dynamics
            moved = torch.cholesky_solve(jacobian @ wanted, factors[0])
        else:
            moved = torch.cholesky_solve(jacobian @ free, _factor(jacobian @ jacobian.mT))
        return (free - jacobian.mT @ moved).squeeze(2)


def needs_mass_matrix(cfg: OperationalSpaceControllerCfg) -> bool:
    """Return whether a controller reads the mass matrix."""
    return cfg.inertial_dynamics_decoupling or cfg.nullspace_control == "position"


_HALVES = (slice(0, 3), slice(3, 6))


def _factor(matrix: torch.Tensor) -> torch.Tensor:
    factor, _ = torch.linalg.cholesky_ex(matrix)  # cholesky() waits for a GPU
    return factor


def _both_halves(rotation: torch.Tensor) -> torch.Tensor:
    """Return rotations of ways and of turns, ``(num_envs, 6, 6)``."""
    zero = torch.zeros_like(rotation)
    upper, lower = torch.cat((rotation, zero), dim=2), torch.cat((zero, rotation), dim=2)
    return torch.cat((upper, lower), dim=1)


def _goal(kind: str, target: torch.Tensor, pose: Pose, task: Pose | None) -> Pose:
    """Return the goal of a pose in the frame of the base."""
    if kind == "pose_abs":
        goal = target[:, :3], normalize(target[:, 3:])
    else:
        start = pose if task is None else subtract_frame_transforms(*task, *pose)
        goal = apply_delta_pose(*start, target)
    return goal if task is None else combine_frame_transforms(*task, *goal)
