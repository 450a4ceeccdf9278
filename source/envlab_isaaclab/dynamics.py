"""Jacobians, mass matrices and gravity's forces of robots, from poses of their links in torch."""

from __future__ import annotations

import mujoco
import torch

from envlab_isaaclab.bodies import Bodies
from envlab_isaaclab.world import World


class Dynamics:
    """Jacobians, mass matrix and gravity of a robot, by PhysX's conventions.

    Columns are six of the root, linear first, and one for each joint.
    """

    def __init__(
        self, world: World, bodies: Bodies, joints: torch.Tensor, dofs: torch.Tensor
    ) -> None:
        """Name the parts.

        Args:
            world: The running world.
            bodies: The links, of which the first is the root.
            joints: Joints in the model, ``(num_dofs,)``.
            dofs: Their degrees of freedom, ``(num_dofs,)``.
        """
        self._world, self._bodies, self._joints, self._dofs = world, bodies, joints, dofs
        model = world.model
        is_hinge = model.jnt_type[joints.tolist()] == mujoco.mjtJoint.mjJNT_HINGE
        self._turns = torch.as_tensor(is_hinge, dtype=torch.float32, device=world.device)
        moves = model.jnt_bodyid[joints.tolist()]
        below = torch.zeros(len(bodies.names), len(moves))
        for row, body in enumerate(bodies.ids.tolist()):
            while body:
                below[row, moves == body] = 1.0
                body = int(model.body_parentid[body])
        self._below = below.to(world.device)
        """Which joints move which links, 0 or 1, ``(num_links, num_dofs)``."""

    def jacobians(self) -> torch.Tensor:
        """Return Jacobians of the centres of mass, ``(num_envs, num_links, 6, 6 + num_dofs)``.

        A joint moves the links below it: by its axis, or by its axis and the arm from its anchor.
        """
        world = self._world
        world.want(("xanchor", "xaxis", "xipos", "xpos"))
        data = world.data
        axes = data.xaxis[:, None, self._joints] * self._below[None, ..., None]
        centres = data.xipos[:, self._bodies.ids]
        arms = centres[:, :, None] - data.xanchor[:, None, self._joints]
        swept = torch.linalg.cross(axes, arms.expand_as(axes))
        turns = self._turns[None, None, :, None]
        linear = turns * swept + (1.0 - turns) * axes
        moved = torch.cat((linear, turns * axes), dim=-1).mT
        offsets = centres - data.xpos[:, self._bodies.ids[:1]]
        unit = torch.eye(3, device=world.device).expand(*offsets.shape[:2], 3, 3)
        swings = torch.linalg.cross(unit, offsets[..., None, :].expand_as(unit))
        rows = (
            torch.cat((unit, swings.mT), dim=-1),
            torch.cat((torch.zeros_like(unit), unit), dim=-1),
        )
        return torch.cat((torch.cat(rows, dim=-2), moved), dim=-1)

    def mass_matrices(self) -> torch.Tensor:
        """Return mass matrices, ``(num_envs, 6 + num_dofs, 6 + num_dofs)``."""
        jacobians = self.jacobians()
        masses = self._world.read_field("body_mass")[:, self._bodies.ids]
        diagonal = self._world.read_field("body_inertia")[:, self._bodies.ids]
        self._world.want(("ximat",))
        axes = self._world.data.ximat[:, self._bodies.ids].view(*masses.shape, 3, 3)
        inertias = (axes * diagonal[..., None, :]) @ axes.mT
        linear, angular = jacobians[..., :3, :], jacobians[..., 3:, :]
        found = (
            masses[..., None, None] * linear.mT @ linear + angular.mT @ inertias @ angular
        ).sum(1)
        armature = self._world.read_field("dof_armature")[:, self._dofs]
        found[:, 6:, 6:] += torch.diag_embed(armature)
        return found

    def gravity_compensation_forces(self) -> torch.Tensor:
        """Return forces against gravity, ``(num_envs, 6 + num_dofs)``."""
        gravity = self._world.read_field("opt.gravity")[:, None, :, None]
        masses = self._world.read_field("body_mass")[:, self._bodies.ids]
        return -(masses[..., None, None] * self.jacobians()[..., :3, :].mT @ gravity).sum((1, 3))
