"""Values set in a world: states, efforts and targets, forces on bodies.

They reach the simulation with the next step, or with the next value that needs kinematics.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch

from envlab.errors import ConfigurationError
from envlab_isaacgym.enums import DofDriveMode
from envlab_isaacgym.readings import Readings
from envlab_isaacgym.rotations import rotate_inverse


class Settings(Readings):
    """Setters of a simulation's values."""

    ctrl: torch.Tensor
    wrench: torch.Tensor
    _root_poses: torch.Tensor
    """Of all actors as last set, ``(num_envs, num_actors, 7)``; of fixed ones, their places."""
    _changed: torch.Tensor
    _dof_actors: torch.Tensor
    _is_effort: torch.Tensor
    _is_mode: dict[DofDriveMode, torch.Tensor]

    @abstractmethod
    def renew(self) -> None:
        """Apply properties that have changed since the simulation was made, if any."""

    def set_dofs(self, values: torch.Tensor, actors: torch.Tensor | None) -> None:
        """Set positions and velocities of the degrees of freedom of some actors, or of all.

        Args:
            values: ``(num_envs * num_dofs, 2)``.
            actors: Actors' indices in the simulation.
        """
        self.ensure()
        new = self._shaped(values, "DOF states", self.num_dofs, 2).flatten(1)
        if actors is None:
            self.state.index_copy_(1, self._dof_columns, new)
            self._changed.fill_(True)
        else:
            mask = self._actor_mask(actors)
            is_set = mask[:, self._dof_actors].repeat_interleave(2, dim=1)
            old = self.state.index_select(1, self._dof_columns)
            self.state.index_copy_(1, self._dof_columns, torch.where(is_set, new, old))
            self._changed |= mask.any(dim=1)
        self._is_changed = True

    def set_roots(self, values: torch.Tensor, actors: torch.Tensor | None) -> None:
        """Set the states of some actors' first bodies, or of all.

        Args:
            values: ``(num_envs * num_actors, 13)``.
            actors: Actors' indices in the simulation.
        """
        self.ensure()
        new = self._shaped(values, "root states", self.num_actors, 13)
        mask = None if actors is None else self._actor_mask(actors)
        self._move_fixed(new, mask)
        if not self._floating:
            return
        rows = new[:, self._floating_ids].clone()
        rows[..., 10:] = rotate_inverse(rows[..., 3:7], rows[..., 10:])
        if mask is None:
            self._changed.fill_(True)
        else:
            old = self.state[:, self._root_columns].view_as(rows)
            rows = torch.where(mask[:, self._floating_ids, None], rows, old)
            self._changed |= mask.any(dim=1)
        self.state.index_copy_(1, self._root_columns, rows.flatten(1))
        self._is_changed = True

    def _move_fixed(self, new: torch.Tensor, mask: torch.Tensor | None) -> None:
        """Move actors without a floating root."""
        roots = self.roots.view(self.num_envs, self.num_actors, 13)
        before = self._root_poses  # not the roots, as a script may have changed those in place
        moved = False
        for number in set(range(self.num_actors)) - set(self._floating):
            chosen = slice(None) if mask is None else mask[:, number]
            if torch.equal(new[chosen, number, :7], before[chosen, number]):
                continue
            before[chosen, number] = roots[chosen, number, :7] = new[chosen, number, :7]
            moved = True
            for env in self._sim.envs:
                pose = env.actors[number].pose
                values = before[env.index, number].tolist()
                pose.p.x, pose.p.y, pose.p.z = values[:3]
                pose.r.x, pose.r.y, pose.r.z, pose.r.w = values[3:7]
        if moved:
            self._fields |= {"body_pos", "body_quat"}
            self.renew()

    def set_controls(
        self,
        values: torch.Tensor,
        actors: torch.Tensor | None,
        mode: DofDriveMode,
    ) -> None:
        """Set efforts, or targets of the drives of one mode.

        Args:
            values: ``(num_envs * num_dofs,)``.
            actors: Actors' indices in the simulation; None: all.
            mode: Mode of the affected degrees of freedom; ``DOF_MODE_EFFORT``: all without a drive.
        """
        self.ensure()
        new = self._shaped(values, "DOF efforts or targets", self.num_dofs)
        is_set = self._is_effort if mode == DofDriveMode.DOF_MODE_EFFORT else self._is_mode[mode]
        if actors is not None:
            is_set = is_set & self._actor_mask(actors)[:, self._dof_actors]
        torch.where(is_set, new, self.ctrl, out=self.ctrl)

    def controls(self) -> torch.Tensor:
        """Return efforts and targets, ``(num_envs, num_dofs)``."""
        self.ensure()
        return self.ctrl

    def push(self, forces: torch.Tensor | None, torques: torch.Tensor | None) -> None:
        """Add forces at bodies' centres of mass, and torques, in the world frame, for one step.

        Args:
            forces: ``(num_envs, num_bodies, 3)``.
            torques: ``(num_envs, num_bodies, 3)``.
        """
        self.ensure()
        for values, part in ((forces, self.wrench[..., :3]), (torques, self.wrench[..., 3:])):
            if values is not None:
                part += values
        self._is_pushed = True

    def _actor_mask(self, actors: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(self.num_envs * self.num_actors, dtype=torch.bool, device=self.device)
        mask[actors.to(device=self.device, dtype=torch.long)] = True
        return mask.view(self.num_envs, self.num_actors)

    def _shaped(self, values: torch.Tensor, what: str, *size: int) -> torch.Tensor:
        expected = self.num_envs * int(np.prod(size))
        if values.numel() != expected:
            raise ConfigurationError(
                f"The tensor of {what} has {values.numel()} numbers, but must have {expected}: "
                f"{' x '.join(str(n) for n in size)} for each of {self.num_envs} environments."
            )
        return values.detach().to(self.device, torch.float32).view(self.num_envs, *size)
