"""PhysX's tensor views on a :class:`~envlab_isaaclab.world.World`: what Isaac Lab's assets read.

Conventions are PhysX's: links and joints breadth first, quaternions (x, y, z, w), velocities of
links those of their centres of mass, in the world frame; rows by environment, then by body.
Properties are given as on PhysX, on the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import torch

from envlab.envs.math import quat_apply, quat_apply_inverse
from envlab.errors import ConfigurationError
from envlab_isaaclab.stage import in_first
from envlab_isaaclab.tendons import FixedTendons
from envlab_isaaclab.things import UNLIMITED, Robot, combined
from envlab_isaaclab.world import World

_POSES = ("xpos", "xquat")
_SPEEDS = ("cvel", "subtree_com", "xipos")


def _ids(values: Sequence[int] | np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.int64), device=device)


def _pattern(path: str) -> re.Pattern[str]:
    """Return PhysX's pattern of paths in environment 0, where ``*`` is anything in one part."""
    escaped = re.sub(r"[.\[\]+?^$]", lambda found: "\\" + found.group(), in_first(path))
    return re.compile(escaped.replace("*", "[^/]*"))


class _Bodies:
    """Reads and writes some bodies of each environment.

    Attributes:
        names: Their names in the model, which are their paths in environment 0.
    """

    def __init__(self, world: World, names: Sequence[str]) -> None:
        self._world, self.names = world, list(names)
        model = world.model
        self.device = world.device
        ids = [model.body(name).id for name in names]
        self.ids = _ids(ids, self.device)
        self._trees = _ids([model.body_rootid[body] for body in ids], self.device)
        self._speed_frame = -1
        self._last_speeds: torch.Tensor | None = None
        self._accelerations: torch.Tensor | None = None

    def transforms(self) -> torch.Tensor:
        """Return positions and quaternions, ``(num_envs, k, 7)``."""
        self._world.want(_POSES)
        data = self._world.data
        pos = data.xpos[:, self.ids] + self._world.origins[:, None]
        return torch.cat((pos, data.xquat[:, self.ids].roll(-1, dims=-1)), dim=-1)

    def velocities(self) -> torch.Tensor:
        """Return velocities of the centres of mass, then angular ones, ``(num_envs, k, 6)``."""
        self._world.want(_SPEEDS)
        data = self._world.data
        motion = data.cvel[:, self.ids]
        angular = motion[..., :3]
        # Motions are those of the point at the tree's centre of mass.
        offset = data.xipos[:, self.ids] - data.subtree_com[:, self._trees]
        linear = motion[..., 3:] + torch.linalg.cross(angular, offset)
        return torch.cat((linear, angular), dim=-1)

    def accelerations(self) -> torch.Tensor:
        """Return changes of velocities in the last physics step, over its time.

        They are zero when first asked for, and follow steps from then on.
        """
        frame = self._world.frame
        if frame != self._speed_frame:
            speeds = self.velocities()
            if self._last_speeds is None or frame != self._speed_frame + 1:
                self._accelerations = torch.zeros_like(speeds)
            else:
                self._accelerations = (speeds - self._last_speeds) / self._world.dt
            self._last_speeds, self._speed_frame = speeds, frame
        assert self._accelerations is not None
        return self._accelerations.clone()

    def coms(self) -> torch.Tensor:
        """Return poses of the centres of mass in the bodies, ``(num_envs, k, 7)``."""
        pos = self._world.read_field("body_ipos")[:, self.ids]
        quat = self._world.read_field("body_iquat")[:, self.ids]
        return torch.cat((pos, quat.roll(-1, dims=-1)), dim=-1).cpu()

    def masses(self) -> torch.Tensor:
        """Return masses in kg, ``(num_envs, k)``."""
        return self._world.read_field("body_mass")[:, self.ids].cpu().clone()

    def inertias(self) -> torch.Tensor:
        """Return inertias about the centres of mass, in their frames, ``(num_envs, k, 9)``."""
        return (
            torch.diag_embed(self._world.read_field("body_inertia")[:, self.ids]).flatten(2).cpu()
        )

    def push(
        self,
        force: torch.Tensor | None,
        torque: torch.Tensor | None,
        position: torch.Tensor | None,
        is_global: bool,
    ) -> None:
        """Apply wrenches ``(num_envs * k, 3)`` in the next step, at positions or the centres.

        Isaac Lab's assets ask for it in each physics step once an event has drawn a wrench, also of
        zeros, which need no poses of bodies.
        """
        if not any(given is not None and bool(given.any()) for given in (force, torque)):
            return
        shape = (self._world.num_envs, len(self.names), 3)
        zero = torch.zeros(shape, device=self.device)
        force = zero if force is None else force.view(shape).to(self.device)
        torque = zero if torque is None else torque.view(shape).to(self.device)
        if not is_global or position is not None:
            self._world.want((*_POSES, *_SPEEDS))
        data = self._world.data
        if not is_global:
            quats = data.xquat[:, self.ids]
            force, torque = quat_apply(quats, force), quat_apply(quats, torque)
        if position is not None:
            place = position.view(shape).to(self.device)
            if is_global:
                place = place - self._world.origins[:, None]
            else:
                place = data.xpos[:, self.ids] + quat_apply(data.xquat[:, self.ids], place)
            arm = place - data.xipos[:, self.ids]
            torque = torque + torch.linalg.cross(arm, force)
        self._world.push(self.ids, force, torque)

    def geoms(self) -> list[int]:
        """Return the shapes that touch others."""
        model = self._world.model
        of = set(self.ids.tolist())
        touching = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        return [one for one in range(model.ngeom) if model.geom_bodyid[one] in of and touching[one]]


class _View:
    """Common part of views of robots and bodies: properties of bodies and their shapes."""

    _backend = "mujoco"  # Isaac Lab only asks whether there is one

    def __init__(self, world: World, names: Sequence[str], material_of: str) -> None:
        self._world, self._bodies = world, _Bodies(world, names)
        self._shapes = self._bodies.geoms()
        self._shape_ids = _ids(self._shapes, world.device)
        self._material = world.materials.get(material_of, world.ground)
        material = (self._material.static, self._material.dynamic, self._material.restitution)
        self._materials = torch.tensor(material).repeat(world.num_envs, len(self._shapes), 1)
        self._offsets = torch.zeros(world.num_envs, len(self._shapes))

    @property
    def max_shapes(self) -> int:
        """Number of shapes that touch others."""
        return len(self._shapes)

    def check(self) -> bool:
        """Return True: the simulation exists."""
        return True

    def get_masses(self) -> torch.Tensor:
        """Return masses in kg."""
        return self._bodies.masses()

    def set_masses(self, masses: torch.Tensor, indices: torch.Tensor) -> None:
        """Change masses."""
        self._write("body_mass", self._bodies.ids, masses, indices)

    def get_inertias(self) -> torch.Tensor:
        """Return inertias, row by row."""
        return self._bodies.inertias()

    def set_inertias(self, inertias: torch.Tensor, indices: torch.Tensor) -> None:
        """Change moments of inertia; products, which MuJoCo's frame does not have, are ignored."""
        diagonal = inertias.view(self._world.num_envs, -1, 9)[..., [0, 4, 8]]
        self._write("body_inertia", self._bodies.ids, diagonal, indices)

    def get_coms(self) -> torch.Tensor:
        """Return poses of the centres of mass in the bodies."""
        return self._bodies.coms()

    def set_coms(self, coms: torch.Tensor, indices: torch.Tensor) -> None:
        """Move centres of mass."""
        coms = coms.view(self._world.num_envs, -1, 7)
        self._write("body_ipos", self._bodies.ids, coms[..., :3], indices)
        self._write("body_iquat", self._bodies.ids, coms[..., 3:].roll(1, dims=-1), indices)

    def get_material_properties(self) -> torch.Tensor:
        """Return friction, static and dynamic, and restitution, ``(num_envs, num_shapes, 3)``."""
        return self._materials.clone()

    def set_material_properties(self, materials: torch.Tensor, indices: torch.Tensor) -> None:
        """Change friction; MuJoCo has one coefficient, which is the static one."""
        rows = indices.cpu().long()
        self._materials[rows] = materials.cpu()[rows]
        static = combined(self._materials[..., 0], self._material.combine, self._world.ground)
        envs = rows.to(self._world.device)
        columns = (self._shape_ids, 0)
        self._world.write_field("geom_friction", envs, columns, static[rows])

    def get_rest_offsets(self) -> torch.Tensor:
        """Return zeros: MuJoCo has no rest offset."""
        return self._offsets.clone()

    get_contact_offsets = get_rest_offsets

    def set_rest_offsets(self, offsets: torch.Tensor, indices: torch.Tensor) -> None:
        """Do nothing: MuJoCo has no such offset."""

    set_contact_offsets = set_rest_offsets

    def _write(self, name: str, columns: Any, values: torch.Tensor, indices: torch.Tensor) -> None:
        envs = indices.to(self._world.device).long()
        values = values.view(self._world.num_envs, -1, *values.shape[2:])
        self._world.write_field(name, envs, columns, values.to(self._world.device)[envs])


class _Root:
    """Poses and velocities of one body that moves freely, is placed, or is fixed."""

    def __init__(self, world: World, name: str) -> None:
        self._world, model = world, world.model
        body = self._body = model.body(name).id
        joint = int(model.body_jntadr[body])
        is_free = joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        self.mocap = int(model.body_mocapid[body])
        self.is_free = bool(is_free)
        if is_free:
            self._pos = _ids(
                range(model.jnt_qposadr[joint], model.jnt_qposadr[joint] + 7), world.device
            )
            self._vel = _ids(
                range(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + 6), world.device
            )
        self._id = _ids([body], world.device)

    def transforms(self) -> torch.Tensor:
        """Return positions and quaternions, ``(num_envs, 7)``."""
        if self.is_free:
            pose = self._world.qpos[:, self._pos]
        elif self.mocap >= 0:
            simulation = self._world.simulation
            pose = torch.cat(
                (simulation.mocap_pos[:, self.mocap], simulation.mocap_quat[:, self.mocap]), dim=-1
            )
        else:
            fields = (
                self._world.read_field(f"body_{name}")[:, self._body] for name in ("pos", "quat")
            )
            pose = torch.cat(tuple(fields), dim=-1)
        place = pose[:, :3] + self._world.origins
        return torch.cat((place, pose[:, 3:].roll(-1, dims=-1)), dim=-1)

    def velocities(self) -> torch.Tensor:
        """Return velocities of the centre of mass, and angular ones, ``(num_envs, 6)``."""
        if not self.is_free:
            return torch.zeros(self._world.num_envs, 6, device=self._world.device)
        motion, quat = self._world.qvel[:, self._vel], self._world.qpos[:, self._pos[3:]]
        angular = quat_apply(quat, motion[:, 3:])  # MuJoCo has it in the body's frame
        arm = quat_apply(quat, self._world.read_field("body_ipos")[:, self._body])
        return torch.cat((motion[:, :3] + torch.linalg.cross(angular, arm), angular), dim=-1)

    def place(self, poses: torch.Tensor, envs: torch.Tensor) -> None:
        """Write poses of environments, of ``(num_envs, 7)``."""
        poses = poses.to(self._world.device)[envs]
        pos = poses[:, :3] - self._world.origins[envs]
        quat = poses[:, 3:].roll(1, dims=-1)
        if self.is_free:
            self._world.move(envs, self._pos, torch.cat((pos, quat), dim=-1))
        elif self.mocap >= 0:
            simulation = self._world.simulation
            simulation.mocap_pos[envs, self.mocap] = pos
            simulation.mocap_quat[envs, self.mocap] = quat
        else:
            self._world.write_field("body_pos", envs, self._id, pos[:, None])
            self._world.write_field("body_quat", envs, self._id, quat[:, None])

    def speed(self, velocities: torch.Tensor, envs: torch.Tensor) -> None:
        """Write velocities of environments, of ``(num_envs, 6)``."""
        if not self.is_free:
            return
        rows = velocities.to(self._world.device)[envs]
        quat = self._world.qpos[envs][:, self._pos[3:]]
        angular = rows[:, 3:]
        arm = quat_apply(quat, self._world.read_field("body_ipos")[envs, self._body])
        linear = rows[:, :3] - torch.linalg.cross(angular, arm)
        motion = torch.cat((linear, quat_apply_inverse(quat, angular)), dim=-1)
        self._world.speed(envs, self._vel, motion)


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


class ArticulationView(_View, FixedTendons):
    """A robot in all environments."""

    def __init__(self, world: World, path: str, robot: Robot) -> None:
        links, joints = robot.links(), robot.joints()
        super().__init__(world, [f"{path}/{link}" for link in links], path)
        FixedTendons.__init__(self, world, path, joints)
        self.count = world.num_envs
        self._root = _Root(world, f"{path}/{links[0]}")
        self.shared_metatype = Metatype(not self._root.is_free, links, joints)
        self.max_links, self.max_dofs = len(links), len(joints)
        self.prim_paths = _paths(world, [path])
        self.link_paths = [[f"{one}/{link}" for link in links] for one in self.prim_paths]
        self.dof_paths = [[f"{one}/joints/{joint}" for joint in joints] for one in self.prim_paths]
        model, device = world.model, world.device
        own = [model.joint(f"{path}/{joint}").id for joint in joints]
        self._joints = _ids(own, device)
        self._pos, self._vel = (
            _ids(model.jnt_qposadr[own], device),
            _ids(model.jnt_dofadr[own], device),
        )
        self._motors = _ids([model.actuator(f"{path}/{joint}").id for joint in joints], device)
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

    def apply_forces_and_torques_at_position(
        self,
        force_data: torch.Tensor | None,
        torque_data: torch.Tensor | None,
        position_data: torch.Tensor | None,
        indices: torch.Tensor,
        is_global: bool,
    ) -> None:
        """Apply wrenches to links in the next step."""
        self._bodies.push(force_data, torque_data, position_data, is_global)

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
        found = self._jacobians()
        return found[:, 1:, :, 6:] if self.shared_metatype.fixed_base else found

    def get_generalized_mass_matrices(self) -> torch.Tensor:
        """Return mass matrices of the joints, with the root's six rows first if it moves."""
        jacobians = self._jacobians()
        masses = self._world.read_field("body_mass")[:, self._bodies.ids]
        diagonal = self._world.read_field("body_inertia")[:, self._bodies.ids]
        self._world.want(("ximat",))
        turns = self._world.data.ximat[:, self._bodies.ids].view(*masses.shape, 3, 3)
        inertias = (turns * diagonal[..., None, :]) @ turns.mT
        linear, angular = jacobians[..., :3, :], jacobians[..., 3:, :]
        found = (
            masses[..., None, None] * linear.mT @ linear + angular.mT @ inertias @ angular
        ).sum(1)
        armature = self._world.read_field("dof_armature")[:, self._vel]
        found[:, 6:, 6:] += torch.diag_embed(armature)
        return found[:, 6:, 6:] if self.shared_metatype.fixed_base else found

    get_mass_matrices = get_generalized_mass_matrices

    def get_gravity_compensation_forces(self) -> torch.Tensor:
        """Return joint forces against gravity, with those of a root that moves first."""
        gravity = self._world.read_field("opt.gravity")[:, None, :, None]
        masses = self._world.read_field("body_mass")[:, self._bodies.ids]
        found = -(masses[..., None, None] * self._jacobians()[..., :3, :].mT @ gravity).sum((1, 3))
        return found[:, 6:] if self.shared_metatype.fixed_base else found

    def _jacobians(self) -> torch.Tensor:
        """Return Jacobians of the centres of mass, ``(num_envs, num_links, 6, 6 + num_dofs)``.

        A joint moves the links below it: by its axis, or by its axis and the arm from its anchor.
        """
        world, model = self._world, self._world.model
        world.want(("xanchor", "xaxis", "xipos", "xpos"))
        data, ids = world.data, self._bodies.ids.tolist()
        joints, below = self._joints.tolist(), torch.zeros(len(ids), len(self._joints))
        for row, body in enumerate(ids):
            while body:
                for column, joint in enumerate(joints):
                    if model.jnt_bodyid[joint] == body:
                        below[row, column] = 1.0
                body = int(model.body_parentid[body])
        kinds = model.jnt_type[joints] == mujoco.mjtJoint.mjJNT_HINGE
        turns = torch.as_tensor(kinds, dtype=torch.float32, device=self._bodies.device)
        axes = data.xaxis[:, None, self._joints] * below.to(world.device)[None, ..., None]
        centres = data.xipos[:, self._bodies.ids]
        arms = centres[:, :, None] - data.xanchor[:, None, self._joints]
        swept = torch.linalg.cross(axes, arms.expand_as(axes))
        turns = turns[None, None, :, None]
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


class RigidBodyView(_View):
    """Bodies in all environments, by environment and then by body."""

    def __init__(self, world: World, names: Sequence[str]) -> None:
        super().__init__(world, names, names[0])
        self._names = list(names)
        self.count = world.num_envs * len(names)
        self.prim_paths = _paths(world, names)
        self._roots = [_Root(world, name) for name in names]
        self._are_free = all(one.is_free or one.mocap >= 0 for one in self._roots)

    def get_transforms(self) -> torch.Tensor:
        """Return poses, ``(count, 7)``."""
        if self._are_free:
            return torch.stack([one.transforms() for one in self._roots], dim=1).flatten(0, 1)
        return self._bodies.transforms().flatten(0, 1)

    def set_transforms(self, poses: torch.Tensor, indices: torch.Tensor) -> None:
        """Move bodies."""
        for body, envs in self._split(indices):
            self._roots[body].place(poses[body :: len(self._roots)], envs)

    def get_velocities(self) -> torch.Tensor:
        """Return velocities of the centres of mass, ``(count, 6)``."""
        if self._are_free:
            return torch.stack([one.velocities() for one in self._roots], dim=1).flatten(0, 1)
        return self._bodies.velocities().flatten(0, 1)

    def set_velocities(self, velocities: torch.Tensor, indices: torch.Tensor) -> None:
        """Change velocities."""
        for body, envs in self._split(indices):
            self._roots[body].speed(velocities[body :: len(self._roots)], envs)

    def get_accelerations(self) -> torch.Tensor:
        """Return accelerations of the centres of mass, ``(count, 6)``."""
        return self._bodies.accelerations().flatten(0, 1)

    def apply_forces_and_torques_at_position(
        self,
        force_data: torch.Tensor | None,
        torque_data: torch.Tensor | None,
        position_data: torch.Tensor | None,
        indices: torch.Tensor,
        is_global: bool,
    ) -> None:
        """Apply wrenches in the next step."""
        self._bodies.push(force_data, torque_data, position_data, is_global)

    def get_masses(self) -> torch.Tensor:
        return super().get_masses().flatten()[:, None]

    def get_inertias(self) -> torch.Tensor:
        return super().get_inertias().flatten(0, 1)

    def get_coms(self) -> torch.Tensor:
        return super().get_coms().flatten(0, 1)

    def _split(self, indices: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
        """Return indices of rows as environments of each body."""
        indices, count = indices.to(self._world.device).long(), len(self._roots)
        return [(body, indices[indices % count == body] // count) for body in range(count)]

    def _write(self, name: str, columns: Any, values: torch.Tensor, indices: torch.Tensor) -> None:
        count = len(self._roots)
        values = values.reshape(self._world.num_envs, count, *values.shape[1:][-1:])
        if name == "body_mass":
            values = values.reshape(self._world.num_envs, count)
        envs = torch.unique(indices.to(self._world.device).long() // count)
        super()._write(name, columns, values, envs)


class RigidContactView:
    """Net forces of contacts on bodies, and those by partner."""

    def __init__(self, world: World, names: Sequence[str], filters: Sequence[str]) -> None:
        self._world, self._names = world, list(names)
        self._partners = self._resolve(filters)
        self.sensor_count = self.count = world.num_envs * len(names)
        self.filter_count = len(filters)
        self.sensor_paths = _paths(world, names)
        self._net: list[int] | None = None
        self._by_partner: list[int] | None = None
        self._columns = self._sensors([""])

    def get_net_contact_forces(self, dt: float = 1.0) -> torch.Tensor:
        """Return forces in the last physics step, in N in the world frame, ``(count, 3)``."""
        readings = self._world.forces.sensordata[:, self._columns]
        return readings.view(self.count, 3)

    def get_contact_force_matrix(self, dt: float = 1.0) -> torch.Tensor:
        """Return forces by partner, ``(count, filter_count, 3)``."""
        if self._by_partner is None:
            self._by_partner = self._sensors([one for ones in self._partners for one in ones])
        readings = self._world.forces.sensordata[:, self._by_partner]
        shape = (self._world.num_envs, len(self._names), -1, 3)
        sizes = [len(ones) for ones in self._partners]
        parts = readings.view(*shape).split(sizes, dim=2)
        return torch.stack([one.sum(dim=2) for one in parts], dim=2).flatten(0, 1)

    def get_contact_data(self, dt: float = 1.0) -> Any:
        """Refuse: single contacts are not read.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "A contact sensor has track_contact_points or track_friction_forces, which are not "
            "read from MuJoCo. Set them to False."
        )

    get_friction_data = get_contact_data

    def _resolve(self, filters: Sequence[str]) -> list[list[str]]:
        found = []
        for one in filters:
            pattern, names = _pattern(one), []
            for body in self._world.spec.bodies:
                if pattern.fullmatch(body.name):
                    names.append(body.name)
            if not names and any(pattern.match(path) for path in self._world.stage.spawned):
                names = ["world"]
            if not names:
                raise ConfigurationError(
                    f"A contact sensor's filter_prim_paths_expr has {one!r}, which is no body."
                )
            found.append(names)
        return found

    def _sensors(self, partners: Sequence[str]) -> list[int]:
        columns: list[int] = []
        unknown = mujoco.mjtObj.mjOBJ_UNKNOWN
        for name in self._names:
            for partner in partners:
                # The second of the pair is what the force acts on; the numbers select the force,
                # its sum over contacts, and one slot.
                found = self._world.add_sensor(
                    f"contact of {name} with {partner or 'anything'}",
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    objtype=mujoco.mjtObj.mjOBJ_BODY if partner else unknown,
                    objname=partner,
                    reftype=mujoco.mjtObj.mjOBJ_BODY,
                    refname=name,
                    intprm=[2, 3, 1],
                )
                columns += range(found.start, found.stop)
        return columns


class SimulationView:
    """Makes views of a world."""

    def __init__(self, world: World) -> None:
        self.world, self.device = world, world.device
        self._gravity = tuple(float(value) for value in world.model.opt.gravity)

    def create_articulation_view(self, pattern: str) -> ArticulationView:
        """Return a view of the robot at a path.

        Raises:
            ConfigurationError: If there is none.
        """
        found = self.world.thing_at(in_first(pattern))
        if found is None or not isinstance(found[1].thing, Robot):
            raise ConfigurationError(f"There is no robot at {pattern}.")
        return ArticulationView(self.world, found[0], found[1].thing)

    def create_rigid_body_view(self, pattern: str | Sequence[str]) -> RigidBodyView:
        """Return a view of bodies whose paths match one of some patterns.

        Raises:
            ConfigurationError: If none does.
        """
        return RigidBodyView(self.world, self._bodies(pattern))

    def create_rigid_contact_view(
        self,
        pattern: str | Sequence[str],
        filter_patterns: Sequence[str] = (),
        max_contact_data_count: int = 0,
    ) -> RigidContactView:
        """Return a view of contacts of bodies whose paths match."""
        return RigidContactView(self.world, self._bodies(pattern), filter_patterns)

    def get_gravity(self) -> tuple[float, ...]:
        """Return gravity in m/s²."""
        return self._gravity

    def set_gravity(self, gravity: Sequence[float]) -> None:
        """Change gravity in all environments."""
        self._gravity = tuple(float(value) for value in gravity)
        world = self.world
        world.set_gravity(self._gravity)

    def update_articulations_kinematic(self) -> None:
        """Do nothing: poses follow states when they are read."""

    def set_subspace_roots(self, path: str) -> None:
        """Do nothing: environments are simulated apart."""

    def check(self) -> bool:
        """Return True."""
        return True

    def _bodies(self, pattern: str | Sequence[str]) -> list[str]:
        patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        names: list[str] = []
        order = {name: number for number, name in enumerate(self._in_order())}
        for one in patterns:
            found = [name for name in order if _pattern(one).fullmatch(name)]
            names += [name for name in sorted(found, key=order.__getitem__) if name not in names]
        if not names:
            raise ConfigurationError(f"There is no rigid body at {', '.join(patterns)}.")
        return names

    def _in_order(self) -> list[str]:
        """Return bodies by thing, and those of robots in PhysX's order."""
        names = []
        for path, spawned in self.world.stage.spawned.items():
            if isinstance(spawned.thing, Robot):
                names += [f"{path}/{link}" for link in spawned.thing.links()]
            elif self.world.spec.body(path) is not None:
                names.append(path)
        return names


def _paths(world: World, names: Sequence[str]) -> list[str]:
    """Return the paths of bodies in all environments, by environment."""
    if not any("/env_0" in name for name in names):
        return list(names)
    return [
        name.replace("/env_0", f"/env_{number}", 1)
        for number in range(world.num_envs)
        for name in names
    ]


_view: SimulationView | None = None


def simulation_view() -> SimulationView:
    """Return the view of the running simulation.

    Raises:
        ConfigurationError: If none runs.
    """
    if _view is None:
        raise ConfigurationError("No simulation runs yet; SimulationContext.reset() starts it.")
    return _view


def show(world: World | None) -> None:
    """Make a world the running simulation; None: end it."""
    global _view
    _view = None if world is None else SimulationView(world)


def create_simulation_view(*arguments: Any, **keywords: Any) -> SimulationView:
    """Return the view of the running simulation, as PhysX's function of that name."""
    return simulation_view()
