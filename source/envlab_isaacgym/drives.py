"""Drives that are stiff and limited in effort, such as a gripper's.

The spring of a drive acts on the end of a physics step; MuJoCo omits that implicit part when it
clips a force, and a stiff drive then oscillates forever. PhysX solves for the force at the end of
the step and bounds it. The same is achieved here by bounding the target: with ``D`` the implicit
damping and ``m`` the inertia of a joint, an explicit force ``F`` ends as ``F / (1 + h D / m)``, so
targets are bounded such that ``F`` is at most that factor times the effort. If something blocks the
joint, its inertia is not ``m``, which shows in the force at the end of the step; then ``F`` itself
is bounded by the effort until the joint moves again.
"""

from __future__ import annotations

import mujoco
import numpy as np
import torch

from envlab_isaacgym.enums import DofDriveMode
from envlab_isaacgym.parameters import UNLIMITED

_FREE_SHARE = 0.5
"""A joint that reaches this share of its acceleration in the air is not blocked."""
_EXCESS = 1.05
"""A joint is blocked if the force at the end of a step exceeds the effort by this factor."""


class DriveGains:
    """Gains of drives, ``(num_envs, num_dofs)`` each, from properties and a compiled model.

    The force is ``gain * control - spring * position - damper * velocity``.
    """

    def __init__(self, properties: np.ndarray, model: mujoco.MjModel, dofs: np.ndarray) -> None:
        mode = properties["driveMode"]
        is_position = mode == DofDriveMode.DOF_MODE_POS
        self.is_driven = is_position | (mode == DofDriveMode.DOF_MODE_VEL)
        self.spring = np.where(is_position, properties["stiffness"], 0.0).astype(float)
        damping = np.where(self.is_driven, properties["damping"], 0.0).astype(float)
        self.gain = np.where(is_position, self.spring, np.where(self.is_driven, damping, 1.0))
        self.damper = damping + model.opt.timestep * self.spring
        is_limited = self.is_driven & (properties["effort"] > 0) & (properties["effort"] < 1e30)
        self.effort = np.where(is_limited, properties["effort"], UNLIMITED).astype(float)
        mass = model.dof_M0[dofs] - model.dof_armature[dofs] + properties["armature"]
        self.factor = 1.0 + model.opt.timestep * self.damper / np.maximum(mass, 1e-9)
        self.mass = mass
        self.is_stiff = (is_limited & (self.factor > 2.0) & (self.gain > 0)).any(axis=0)


class StiffDrives:
    """Bounds the targets of stiff drives, so that they push no harder than their effort."""

    def __init__(
        self,
        gains: DriveGains,
        positions: torch.Tensor,
        speeds: torch.Tensor,
        dt: float,
        timestep: float,
    ) -> None:
        chosen = np.flatnonzero(gains.is_stiff)
        device = positions.device

        def tensor(values: np.ndarray) -> torch.Tensor:
            return torch.as_tensor(values[:, chosen], dtype=torch.float32, device=device)

        self._columns = torch.as_tensor(chosen, device=device)
        self._positions, self._speeds = positions[self._columns], speeds[self._columns]
        self._gain, self._spring = tensor(gains.gain), tensor(gains.spring)
        self._damper, self._effort = tensor(gains.damper), tensor(gains.effort)
        self._limit = self._effort * tensor(gains.factor)
        self._damping = self._damper - timestep * self._spring
        self._slow = _FREE_SHARE * dt * self._effort / tensor(gains.mass)
        self._is_blocked = torch.zeros_like(self._gain, dtype=torch.bool)
        self._force = torch.zeros_like(self._gain)

    def bound(self, controls: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return controls ``(num_envs, num_dofs)`` for one step from ``state``."""
        self._speed = state[:, self._speeds]
        own = -self._spring * state[:, self._positions] - self._damper * self._speed
        wanted = self._gain * controls[:, self._columns] + own
        limit = torch.where(self._is_blocked, self._effort, self._limit)
        force = torch.clamp(wanted, -limit, limit)
        self._is_saturated = wanted.abs() > self._effort
        self._pushed = force - own
        return controls.index_copy(1, self._columns, self._pushed / self._gain)

    def observe(self, state: torch.Tensor) -> None:
        """Detect blocked joints from the state after the step."""
        speed = state[:, self._speeds]
        spring = self._spring * state[:, self._positions]
        force = self._force = self._pushed - spring - self._damping * speed
        stays = self._is_saturated & ((speed - self._speed).abs() < self._slow)
        begins = force.abs() > _EXCESS * self._effort
        self._is_blocked = torch.where(self._is_blocked, stays, begins)

    def show_end_forces(self, forces: torch.Tensor) -> None:
        """Write the forces at the end of the last step into those of all drives."""
        forces.index_copy_(1, self._columns, torch.clamp(self._force, -self._effort, self._effort))
