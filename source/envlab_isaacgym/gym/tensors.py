"""Methods on tensors of the whole simulation."""

from __future__ import annotations

import torch

from envlab.errors import ConfigurationError
from envlab_isaacgym.enums import CoordinateSpace, DofDriveMode
from envlab_isaacgym.gym.worlds import physics_of
from envlab_isaacgym.readings import BODIES, DOF_FORCE
from envlab_isaacgym.rotations import rotate
from envlab_isaacgym.scene import CONTACT, FORCE_SENSOR
from envlab_isaacgym.tensor import Tensor
from envlab_isaacgym.world import Sim

_POS, _VEL = DofDriveMode.DOF_MODE_POS, DofDriveMode.DOF_MODE_VEL
_EFFORT = DofDriveMode.DOF_MODE_EFFORT


def _first(indices: Tensor, count: int) -> torch.Tensor:
    return indices.values.reshape(-1)[:count]


def _actor(sim: Sim, name: str) -> int:
    names = [actor.name for actor in sim.envs[0].actors]
    if name not in names:
        raise ConfigurationError(
            f"No actor is called {name!r}; the environments have {', '.join(names)}."
        )
    return names.index(name)


class Tensors:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""

    # States

    def acquire_dof_state_tensor(self, sim: Sim, /) -> Tensor:
        """Return positions and velocities of all degrees of freedom, ``(num_dofs, 2)``."""
        return Tensor(physics_of(sim).dofs)

    def acquire_actor_root_state_tensor(self, sim: Sim, /) -> Tensor:
        """Return states of all actors' first bodies, ``(num_actors, 13)``."""
        return Tensor(physics_of(sim).roots)

    def acquire_rigid_body_state_tensor(self, sim: Sim, /) -> Tensor:
        """Return states of all bodies, ``(num_bodies, 13)``."""
        physics_of(sim).want(BODIES)
        return Tensor(physics_of(sim).bodies)

    def acquire_net_contact_force_tensor(self, sim: Sim, /) -> Tensor:
        """Return net contact forces on all bodies in N, ``(num_bodies, 3)``."""
        physics_of(sim).want(CONTACT)
        return Tensor(physics_of(sim).contacts)

    def acquire_dof_force_tensor(self, sim: Sim, /) -> Tensor:
        """Return forces (N) and torques (N m) of drives and efforts, ``(num_dofs,)``."""
        physics_of(sim).want(DOF_FORCE)
        return Tensor(physics_of(sim).dof_forces)

    def acquire_force_sensor_tensor(self, sim: Sim, /) -> Tensor:
        """Return net forces and torques at all force sensors, ``(num_sensors, 6)``."""
        physics_of(sim).want(FORCE_SENSOR)
        return Tensor(physics_of(sim).force_sensors.values)

    def acquire_jacobian_tensor(self, sim: Sim, name: str, /) -> Tensor:
        """Return the Jacobian of the actors of a name, ``(num_envs, num_bodies, 6, columns)``.

        It leaves out a fixed root's body, and has six columns in front for a floating one.
        """
        return Tensor(physics_of(sim).jacobian(_actor(sim, name)).values)

    def acquire_mass_matrix_tensor(self, sim: Sim, name: str, /) -> Tensor:
        """Return the mass matrix of the actors of a name, ``(num_envs, columns, columns)``."""
        return Tensor(physics_of(sim).mass_matrix(_actor(sim, name)).values)

    def refresh_force_sensor_tensor(self, sim: Sim, /) -> bool:
        physics_of(sim).want(FORCE_SENSOR)
        physics_of(sim).refresh_force_sensors()
        return True

    def refresh_jacobian_tensors(self, sim: Sim, /) -> bool:
        physics_of(sim).refresh_jacobians()
        return True

    def refresh_mass_matrix_tensors(self, sim: Sim, /) -> bool:
        physics_of(sim).refresh_mass_matrices()
        return True

    def refresh_dof_state_tensor(self, sim: Sim, /) -> bool:
        physics_of(sim).refresh_dofs()
        return True

    def refresh_actor_root_state_tensor(self, sim: Sim, /) -> bool:
        physics_of(sim).refresh_roots()
        return True

    def refresh_rigid_body_state_tensor(self, sim: Sim, /) -> bool:
        physics_of(sim).want(BODIES)
        physics_of(sim).refresh_bodies()
        return True

    def refresh_net_contact_force_tensor(self, sim: Sim, /) -> bool:
        physics_of(sim).want(CONTACT)
        physics_of(sim).refresh_contacts()
        return True

    def refresh_dof_force_tensor(self, sim: Sim, /) -> bool:
        physics_of(sim).want(DOF_FORCE)
        physics_of(sim).refresh_dof_forces()
        return True

    def set_dof_state_tensor(self, sim: Sim, states: Tensor, /) -> bool:
        physics_of(sim).set_dofs(states.values, None)
        return True

    def set_dof_state_tensor_indexed(
        self, sim: Sim, states: Tensor, actors: Tensor, count: int, /
    ) -> bool:
        physics_of(sim).set_dofs(states.values, _first(actors, count))
        return True

    def set_actor_root_state_tensor(self, sim: Sim, states: Tensor, /) -> bool:
        physics_of(sim).set_roots(states.values, None)
        return True

    def set_actor_root_state_tensor_indexed(
        self, sim: Sim, states: Tensor, actors: Tensor, count: int, /
    ) -> bool:
        physics_of(sim).set_roots(states.values, _first(actors, count))
        return True

    # Controls

    def set_dof_actuation_force_tensor(self, sim: Sim, forces: Tensor, /) -> bool:
        """Set efforts of all degrees of freedom without a drive, for one step."""
        physics_of(sim).set_controls(forces.values, None, _EFFORT)
        return True

    def set_dof_actuation_force_tensor_indexed(
        self, sim: Sim, forces: Tensor, actors: Tensor, count: int, /
    ) -> bool:
        physics_of(sim).set_controls(forces.values, _first(actors, count), _EFFORT)
        return True

    def set_dof_position_target_tensor(self, sim: Sim, targets: Tensor, /) -> bool:
        physics_of(sim).set_controls(targets.values, None, _POS)
        return True

    def set_dof_position_target_tensor_indexed(
        self, sim: Sim, targets: Tensor, actors: Tensor, count: int, /
    ) -> bool:
        physics_of(sim).set_controls(targets.values, _first(actors, count), _POS)
        return True

    def set_dof_velocity_target_tensor(self, sim: Sim, targets: Tensor, /) -> bool:
        physics_of(sim).set_controls(targets.values, None, _VEL)
        return True

    def set_dof_velocity_target_tensor_indexed(
        self, sim: Sim, targets: Tensor, actors: Tensor, count: int, /
    ) -> bool:
        physics_of(sim).set_controls(targets.values, _first(actors, count), _VEL)
        return True

    # Forces

    def apply_rigid_body_force_tensors(
        self,
        sim: Sim,
        forceTensor: Tensor | None = None,
        torqueTensor: Tensor | None = None,
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> bool:
        """Apply forces at bodies' centres of mass, and torques, for one step."""
        physics = physics_of(sim)
        shape = (physics.num_envs, physics.num_bodies, 3)
        given = [
            None if tensor is None else tensor.values.to(physics.device).view(shape)
            for tensor in (forceTensor, torqueTensor)
        ]
        if space == CoordinateSpace.LOCAL_SPACE:
            quats = physics.body_quats()
            given = [None if values is None else rotate(quats, values) for values in given]
        physics.push(*given)
        return True

    def apply_rigid_body_force_at_pos_tensors(
        self,
        sim: Sim,
        forceTensor: Tensor,
        posTensor: Tensor | None = None,
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> bool:
        """Apply forces at points for one step; without points, at the centres of mass."""
        physics = physics_of(sim)
        shape = (physics.num_envs, physics.num_bodies, 3)
        forces = forceTensor.values.to(physics.device).view(shape)
        if posTensor is None:
            return self.apply_rigid_body_force_tensors(sim, forceTensor, None, space)
        points = posTensor.values.to(physics.device).view(shape)
        if space == CoordinateSpace.LOCAL_SPACE:
            quats = physics.body_quats()
            forces = rotate(quats, forces)
            points = rotate(quats, points) + physics.body_positions()
        torques = torch.linalg.cross(points - physics.body_centres(), forces)
        physics.push(forces, torques)
        return True
