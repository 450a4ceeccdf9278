"""PhysX's view of a robot: states, gains, limits and forces of its joints, and its links."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import torch

from envlab_isaaclab.bodies import Root, as_index, paths_of
from envlab_isaaclab.body_views import BodyView
from envlab_isaaclab.dynamics import Dynamics
from envlab_isaaclab.tendons import FixedTendons
from envlab_isaaclab.things import UNLIMITED, Robot
from envlab_isaaclab.world import World


@dataclass(frozen=True)
class Metatype:
    """What all instances of a robot share."""

    fixed_base: bool
    link_names: list[str]
    dof_names: list[str]

    @property
    def link_count(self) -> int:
        """Number of links."""
        return len(self.link_names)

    @property
    def dof_count(self) -> int:
        """Number of joints."""
        return len(self.dof_names)


class ArticulationView(BodyView, FixedTendons):
    """A robot in all environments."""

    def __init__(self, world: World, path: str, robot: Robot) -> None:
        links, joints = robot.links(), robot.joints()
        super().__init__(world, [f"{path}/{link}" for link in links], path)
        FixedTendons.__init__(self, world, path, joints)
        self.count = world.num_envs
        self._root = Root(world, f"{path}/{links[0]}")
        self.shared_metatype = Metatype(not self._root.is_free, links, joints)
        self.max_links, self.max_dofs = len(links), len(joints)
        self.prim_paths = paths_of(world, [path])
        self.link_paths = [[f"{one}/{link}" for link in links] for one in self.prim_paths]
        self.dof_paths = [[f"{one}/joints/{joint}" for joint in joints] for one in self.prim_paths]
        model, device = world.model, world.device
        own = [model.joint(f"{path}/{joint}").id for joint in joints]
        self._joints = as_index(own, device)
        self._pos, self._vel = (
            as_index(model.jnt_qposadr[own], device),
            as_index(model.jnt_dofadr[own], device),
        )
        self._dynamics = Dynamics(world, self._bodies, self._joints, self._vel)
        self._motors = as_index([model.actuator(f"{path}/{joint}").id for joint in joints], device)
        shape = (world.num_envs, len(joints))
        zeros = torch.zeros(shape)
        self._stiffness, self._damping = zeros.clone(), zeros.clone()
        self._max_velocity = torch.full(shape, UNLIMITED)
        efforts = torch.tensor([robot.efforts.get(joint, UNLIMITED) for joint in joints])
        self._max_force = efforts.expand(shape).clone()
        limited = torch.as_tensor(model.jnt_limited[own], dtype=torch.bool)
        limits = torch.as_tensor(model.jnt_range[own], dtype=torch.float32).clone()
        limits[~limited] = torch.tensor([-UNLIMITED, UNLIMITED])
        self._limited = limited
        self._limits = limits.repeat(world.num_envs, 1, 1)
        self._friction = torch.zeros(*shape, 3)
        self._position_target = torch.zeros(shape, device=device)
        self._velocity_target = torch.zeros(shape, device=device)
        self._force = torch.zeros(shape, device=device)
        self._gains = torch.zeros(2, *shape, device=device)
        self._has_gains = False
        inertias = torch.as_tensor(model.dof_M0[self._vel.cpu()], dtype=torch.float32)
        self._least_inertia = inertias.clamp(min=1e-9)
        self._set_force_limits(torch.arange(world.num_envs))

    # States

    def get_root_transforms(self) -> torch.Tensor:
        """Return the root's pose."""
        return self._root.transforms()

    def set_root_transforms(self, poses: torch.Tensor, indices: torch.Tensor) -> None:
        """Move the root."""
        self._root.place(poses, indices.to(self._world.device).long())

    def get_root_velocities(self) -> torch.Tensor:
        """Return the velocity of the root's centre of mass."""
        return self._root.velocities()

    def set_root_velocities(self, velocities: torch.Tensor, indices: torch.Tensor) -> None:
        """Change the root's velocity."""
        self._root.speed(velocities, indices.to(self._world.device).long())

    def get_link_transforms(self) -> torch.Tensor:
        """Return the links' poses."""
        return self._bodies.transforms()

    def get_link_velocities(self) -> torch.Tensor:
        """Return velocities of the links' centres of mass."""
        return self._bodies.velocities()

    def get_link_accelerations(self) -> torch.Tensor:
        """Return accelerations of the links' centres of mass."""
        return self._bodies.accelerations()

    def get_dof_positions(self) -> torch.Tensor:
        """Return joint positions in rad or m."""
        return self._world.qpos[:, self._pos]

    def set_dof_positions(self, positions: torch.Tensor, indices: torch.Tensor) -> None:
        """Move joints."""
        envs = indices.to(self._world.device).long()
        self._world.move(envs, self._pos, positions[envs])

    def get_dof_velocities(self) -> torch.Tensor:
        """Return joint velocities in rad/s or m/s."""
        return self._world.qvel[:, self._vel]

    def set_dof_velocities(self, velocities: torch.Tensor, indices: torch.Tensor) -> None:
        """Change joint velocities."""
        envs = indices.to(self._world.device).long()
        self._world.speed(envs, self._vel, velocities[envs])

    # Drives

    def set_dof_actuation_forces(self, forces: torch.Tensor, indices: torch.Tensor) -> None:
        """Set forces (N) or torques (N m) that act in addition to the drives."""
        self._force.copy_(forces)
        self._write_controls()

    def set_dof_position_targets(self, targets: torch.Tensor, indices: torch.Tensor) -> None:
        """Set where the drives' springs pull."""
        self._position_target.copy_(targets)
        self._write_controls()

    def set_dof_velocity_targets(self, targets: torch.Tensor, indices: torch.Tensor) -> None:
        """Set the velocities that the drives' dampers want."""
        self._velocity_target.copy_(targets)
        self._write_controls()

    def get_dof_position_targets(self) -> torch.Tensor:
        """Return where the drives' springs pull."""
        return self._position_target.clone()

    def get_dof_velocity_targets(self) -> torch.Tensor:
        """Return the velocities that the drives' dampers want."""
        return self._velocity_target.clone()

    def get_dof_actuation_forces(self) -> torch.Tensor:
        """Return the forces that act in addition to the drives."""
        return self._force.clone()

    def get_dof_projected_joint_forces(self) -> torch.Tensor:
        """Return the forces of drives and motors in the last physics step."""
        self._world.want(("qfrc_actuator",))
        return self._world.forces.qfrc_actuator[:, self._vel]

    def get_dof_stiffnesses(self) -> torch.Tensor:
        """Return the drives' springs, in N m/rad or N/m."""
        return self._stiffness.clone()

    def set_dof_stiffnesses(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        """Change the drives' springs."""
        self._stiffness[indices.long()] = values[indices.long()]
        self._write_gains(indices)

    def get_dof_dampings(self) -> torch.Tensor:
        """Return the drives' dampers, in N m s/rad or N s/m."""
        return self._damping.clone()

    def set_dof_dampings(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        """Change the drives' dampers."""
        self._damping[indices.long()] = values[indices.long()]
        self._write_gains(indices)

    def get_dof_max_forces(self) -> torch.Tensor:
        """Return limits of forces."""
        return self._max_force.clone()

    def set_dof_max_forces(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        """Change limits of forces."""
        self._max_force[indices.long()] = values[indices.long()]
        self._set_force_limits(indices)

    def get_dof_max_velocities(self) -> torch.Tensor:
        """Return limits of velocities, which MuJoCo does not enforce."""
        return self._max_velocity.clone()

    def set_dof_max_velocities(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        """Note limits of velocities, which MuJoCo does not enforce."""
        self._max_velocity[indices.long()] = values[indices.long()]

    def get_dof_armatures(self) -> torch.Tensor:
        """Return inertias of rotors, in kg m² or kg."""
        return self._world.read_field("dof_armature")[:, self._vel].cpu().clone()

    def set_dof_armatures(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        """Change inertias of rotors."""
        self._write("dof_armature", self._vel, values, indices)

    def get_dof_friction_properties(self) -> torch.Tensor:
        """Return friction: static (N m or N), dynamic, viscous, ``(num_envs, num_dofs, 3)``."""
        return self._friction.clone()

    def set_dof_friction_properties(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        """Change friction: MuJoCo has the static one for both, and the viscous one."""
        self._friction[indices.long()] = values[indices.long()]
        self._write("dof_frictionloss", self._vel, self._friction[..., 0], indices)
        self._write("dof_damping", self._vel, self._friction[..., 2], indices)

    def get_dof_limits(self) -> torch.Tensor:
        """Return lower and upper limits of joints, ``(num_envs, num_dofs, 2)``."""
        return self._limits.clone()

    def set_dof_limits(self, values: torch.Tensor, indices: torch.Tensor) -> None:
        """Change limits of the joints that have some."""
        self._limits[indices.long()] = values[indices.long()]
        chosen = self._limited.to(self._world.device)
        limits = self._limits[:, self._limited]
        self._write("jnt_range", self._joints[chosen], limits, indices)

    # Forces

    def get_link_incoming_joint_force(self) -> torch.Tensor:
        """Return force and torque that act on each link through its joint, ``(num_envs, k, 6)``.

        They are given in the link's frame, at its origin, as MuJoCo's sensors of forces read them.
        """
        return torch.stack([self._incoming(name) for name in self._bodies.names], dim=1)

    def _incoming(self, name: str) -> torch.Tensor:
        spec = self._world.spec
        if spec.site(f"{name} joint") is None:
            spec.body(name).add_site(name=f"{name} joint")
        columns = [
            self._world.add_sensor(
                f"{kind} of {name}",
                type=getattr(mujoco.mjtSensor, f"mjSENS_{kind.upper()}"),
                objtype=mujoco.mjtObj.mjOBJ_SITE,
                objname=f"{name} joint",
            )
            for kind in ("force", "torque")
        ]
        readings = self._world.forces.sensordata
        return -torch.cat([readings[:, one] for one in columns], dim=-1)

    # Dynamics

    def get_jacobians(self) -> torch.Tensor:
        """Return Jacobians of the links' centres of mass, in the world frame.

        Returns:
            ``(num_envs, num_links, 6, 6 + num_dofs)``, linear rows first; without the root and
            its six columns if that is fixed.
        """
        found = self._dynamics.jacobians()
        return found[:, 1:, :, 6:] if self.shared_metatype.fixed_base else found

    def get_generalized_mass_matrices(self) -> torch.Tensor:
        """Return mass matrices of the joints, with the root's six rows first if it moves."""
        found = self._dynamics.mass_matrices()
        return found[:, 6:, 6:] if self.shared_metatype.fixed_base else found

    get_mass_matrices = get_generalized_mass_matrices

    def get_gravity_compensation_forces(self) -> torch.Tensor:
        """Return joint forces against gravity, with those of a root that moves first."""
        found = self._dynamics.gravity_compensation_forces()
        return found[:, 6:] if self.shared_metatype.fixed_base else found

    # ----------------------------------------------------------------------------------------------

    def _write_controls(self) -> None:
        """Write what the actuators add to their springs and dampers, see :meth:`_write_gains`."""
        if self._has_gains:
            pulls = torch.addcmul(self._force, self._gains[0], self._position_target)
            pulls.addcmul_(self._gains[1], self._velocity_target)
            self._world.ctrl[:, self._motors] = pulls
        else:
            self._world.ctrl[:, self._motors] = self._force

    def _write_gains(self, indices: torch.Tensor) -> None:
        """Give the actuators springs and dampers that act on the end of a physics step.

        MuJoCo integrates a damper implicitly; that of ``damping + dt * stiffness`` makes the spring
        implicit as well, as PhysX's drives are.
        """
        self._gains = torch.stack((self._stiffness, self._damping)).to(self._world.device)
        self._has_gains = bool(self._gains.any())
        damper = self._damping + self._world.dt * self._stiffness
        envs = indices.to(self._world.device).long()
        rows = envs.cpu()
        for column, values in ((1, -self._stiffness), (2, -damper)):
            self._world.write_field("actuator_biasprm", envs, (self._motors, column), values[rows])
        self._set_force_limits(indices)

    def _set_force_limits(self, indices: torch.Tensor) -> None:
        """Limit the actuators' forces, but for dampers that stop a joint within a step.

        PhysX limits the impulse that its solver finds. MuJoCo limits the force before it integrates
        it, and then without the damper's derivative: such a joint would leap to and fro.
        """
        envs, rows = indices.to(self._world.device).long(), indices.cpu().long()
        dt = self._world.dt
        stops = dt * (self._damping + dt * self._stiffness) > self._least_inertia
        limits = torch.where(stops, UNLIMITED, self._max_force)
        for column, sign in ((0, -1.0), (1, 1.0)):
            values = sign * limits[rows]
            self._world.write_field("actuator_forcerange", envs, (self._motors, column), values)
