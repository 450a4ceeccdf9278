"""The tensors of a world, which are read from its simulation.

Each is made once and rewritten in place. States live in one tensor, positions then velocities of
all degrees of freedom, ``(num_envs, nq + nv)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from envlab.sim.simulation import Simulation
from envlab_isaacgym.drives import StiffDrives
from envlab_isaacgym.dynamics import ForceSensors, Jacobian, MassMatrix
from envlab_isaacgym.rotations import rotate
from envlab_isaacgym.scene import CONTACT, Scene
from envlab_isaacgym.world import Sim

BODIES, CENTRES, DOF_FORCE = "bodies", "centres", "dof_force"
JACOBIAN, MASS_MATRIX = "jacobian", "mass_matrix"


class Readings(ABC):
    """Tensors that are read from a simulation.

    Attributes:
        state: ``(num_envs, nq + nv)``, MuJoCo's qpos and qvel.
        dofs: DOF positions and velocities, ``(num_envs * num_dofs, 2)``.
        roots: Position, quaternion (x, y, z, w), linear and angular velocity in the world frame of
            each actor's first body, ``(num_envs * num_actors, 13)``.
        bodies: The same for all bodies, ``(num_envs * num_bodies, 13)``.
        contacts: Net contact forces in N, ``(num_envs * num_bodies, 3)``.
        dof_forces: Forces and torques of actuators, ``(num_envs * num_dofs,)``.
    """

    state: torch.Tensor
    scene: Scene
    _stiff: StiffDrives | None
    _floating: list[int]
    _floating_ids: torch.Tensor
    _root_columns: torch.Tensor
    _dof_columns: torch.Tensor
    _speed_columns: torch.Tensor
    _body_ids: torch.Tensor
    _body_roots: torch.Tensor

    def __init__(self, sim: Sim) -> None:
        self._sim, self.device = sim, torch.device(sim.device)
        self.num_envs = len(sim.envs)
        env = sim.envs[0]
        self.num_actors, self.num_dofs = len(env.actors), env.num_dofs
        self.num_bodies = env.num_bodies
        count = self.num_envs
        self.dofs = self._zeros(count * self.num_dofs, 2)
        self.roots = self._zeros(count * self.num_actors, 13)
        self.bodies = self._zeros(count * self.num_bodies, 13)
        self.contacts = self._zeros(count * self.num_bodies, 3)
        self.dof_forces = self._zeros(count * self.num_dofs)
        self.force_sensors = ForceSensors(count, env, self.device)
        self._jacobians: dict[int, Jacobian] = {}
        self._mass_matrices: dict[int, MassMatrix] = {}
        self.simulation: Simulation | None = None
        self._fields: set[str] = set()
        self._is_pushed = self._is_changed = False

    @abstractmethod
    def ensure(self) -> None:
        """Make the simulation, unless it exists."""

    @abstractmethod
    def flushed(self) -> Simulation:
        """Return the simulation, after writing all set values to it."""

    @abstractmethod
    def _index(self) -> None:
        """Note where things lie in the scene."""

    def want(self, name: str) -> None:
        """Let a tensor be refreshed from now on."""
        self._sim.wanted.add(name)

    def refresh_dofs(self) -> None:
        """Rewrite :attr:`dofs`."""
        self.ensure()
        out = self.dofs.view(self.num_envs, 2 * self.num_dofs)
        torch.index_select(self.state, 1, self._dof_columns, out=out)

    def refresh_roots(self) -> None:
        """Rewrite :attr:`roots`; fixed actors keep their places."""
        self.ensure()
        rows = self.state[:, self._root_columns].view(self.num_envs, -1, 13)
        # MuJoCo expresses a floating body's angular velocity in the body's frame.
        rows[..., 10:] = rotate(rows[..., 3:7], rows[..., 10:])
        roots = self.roots.view(self.num_envs, self.num_actors, 13)
        if len(self._floating) == self.num_actors:
            roots.copy_(rows)
        elif self._floating:
            roots.index_copy_(1, self._floating_ids, rows)

    def refresh_bodies(self) -> None:
        """Rewrite :attr:`bodies`."""
        self.want(BODIES)
        data, ids = self.flushed().data, self._body_ids
        positions, quats = data.xpos[:, ids], data.xquat[:, ids]
        velocities = data.cvel[:, ids]
        # Velocities are those of a body's point at its tree's centre of mass.
        offset = positions - data.subtree_com[:, self._body_roots]
        linear = velocities[..., 3:] + torch.linalg.cross(velocities[..., :3], offset)
        out = self.bodies.view(self.num_envs, self.num_bodies, 13)
        torch.cat(
            (positions, quats[..., 1:], quats[..., :1], linear, velocities[..., :3]),
            dim=-1,
            out=out,
        )

    def refresh_contacts(self) -> None:
        """Rewrite :attr:`contacts`, by those of the last physics step."""
        simulation = self.flushed()
        first = self._sensor_address(CONTACT)
        values = simulation.data.sensordata[:, first : first + 3 * self.num_bodies]
        # The sensor reports the force that a body exerts.
        torch.neg(values, out=self.contacts.view(self.num_envs, 3 * self.num_bodies))

    def refresh_dof_forces(self) -> None:
        """Rewrite :attr:`dof_forces`."""
        data = self.flushed().data
        torch.index_select(
            data.qfrc_actuator,
            1,
            self._speed_columns - self.scene.model.nq,
            out=self.dof_forces.view(self.num_envs, self.num_dofs),
        )
        if self._stiff is not None:
            self._stiff.show_end_forces(self.dof_forces.view(self.num_envs, self.num_dofs))

    def refresh_force_sensors(self) -> None:
        """Rewrite the readings of force sensors."""
        simulation = self.flushed()
        self.force_sensors.refresh(simulation.data)

    def jacobian(self, actor: int) -> Jacobian:
        """Return the Jacobian of an actor, which is refreshed from now on."""
        if actor not in self._jacobians:
            self._jacobians[actor] = Jacobian(self.num_envs, self._sim.envs[0], actor, self.device)
            self._want_matrix(JACOBIAN)
        return self._jacobians[actor]

    def mass_matrix(self, actor: int) -> MassMatrix:
        """Return the mass matrix of an actor, which is refreshed from now on."""
        if actor not in self._mass_matrices:
            self._mass_matrices[actor] = MassMatrix(
                self.num_envs, self._sim.envs[0], actor, self.device
            )
            self._want_matrix(MASS_MATRIX)
        return self._mass_matrices[actor]

    def _want_matrix(self, name: str) -> None:
        self.want(name)
        if self.simulation is not None:
            self._index()

    def refresh_jacobians(self) -> None:
        """Rewrite all Jacobians."""
        data = self.flushed().data
        for jacobian in self._jacobians.values():
            jacobian.refresh(data)

    def refresh_mass_matrices(self) -> None:
        """Rewrite all mass matrices."""
        data = self.flushed().data
        for matrix in self._mass_matrices.values():
            matrix.refresh(data)

    def _sensor_address(self, kind: str) -> int:
        model = self.scene.model
        for index in range(model.nsensor):
            if model.sensor(index).name.startswith(kind):
                return int(model.sensor_adr[index])
        raise KeyError(kind)

    def body_quats(self) -> torch.Tensor:
        """Return all bodies' rotations (x, y, z, w), ``(num_envs, num_bodies, 4)``."""
        self.want(BODIES)
        return self.flushed().data.xquat[:, self._body_ids].roll(-1, dims=-1)

    def body_positions(self) -> torch.Tensor:
        """Return the positions of all bodies' frames, ``(num_envs, num_bodies, 3)``."""
        self.want(BODIES)
        return self.flushed().data.xpos[:, self._body_ids]

    def body_centres(self) -> torch.Tensor:
        """Return all bodies' centres of mass, ``(num_envs, num_bodies, 3)``."""
        self.want(CENTRES)
        return self.flushed().data.xipos[:, self._body_ids]

    def _zeros(self, *size: int) -> torch.Tensor:
        return torch.zeros(*size, device=self.device)

    def _ids(self, values: object) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.int64), device=self.device)
