"""Runs a world on one of envlab's simulations, and keeps Isaac Gym's tensors of it.

Tensors are made once and rewritten in place by ``refresh_*``. States live in one tensor, positions
then velocities of all degrees of freedom, ``(num_envs, nq + nv)``: what a task sets is written
there, and reaches the simulation with the next step or with the next value that takes kinematics.
"""

from __future__ import annotations

import logging

import numpy as np
import torch

from envlab.distributed.limits import usable_cores
from envlab.distributed.ranks import launched_local_world_size
from envlab.errors import ConfigurationError
from envlab.isaacgym.composition import build_scene
from envlab.isaacgym.drives import StiffDrives
from envlab.isaacgym.dynamics import ForceSensors, Jacobian, MassMatrix
from envlab.isaacgym.enums import DofDriveMode
from envlab.isaacgym.parameters import UNLIMITED
from envlab.isaacgym.rotations import rotate, rotate_inverse
from envlab.isaacgym.scene import CONTACT, FORCE_SENSOR
from envlab.isaacgym.values import Transform
from envlab.isaacgym.world import Sim
from envlab.sim.simulation import Simulation, SimulationCfg, create_simulation

logger = logging.getLogger(__name__)

BODIES, CENTRES, DOF_FORCE = "bodies", "centres", "dof_force"
JACOBIAN, MASS_MATRIX = "jacobian", "mass_matrix"
BACKEND = "auto"
"""Which of envlab's simulations runs a world; tests take ``mujoco_warp`` on Warp's CPU device."""
_FIELDS = {
    BODIES: ("xpos", "xquat", "cvel", "subtree_com"),
    CENTRES: ("xipos",),
    DOF_FORCE: ("qfrc_actuator",),
    CONTACT: ("sensordata",),
    FORCE_SENSOR: ForceSensors.FIELDS,
    JACOBIAN: Jacobian.FIELDS,
    MASS_MATRIX: MassMatrix.FIELDS,
}
"""Fields of MjData that a wanted tensor is made from."""


class Physics:
    """A simulation of a world.

    Attributes:
        state: ``(num_envs, nq + nv)``, MuJoCo's qpos and qvel.
        dofs: DOF positions and velocities, ``(num_envs * num_dofs, 2)``.
        roots: Position, quaternion (x, y, z, w), linear and angular velocity in the world frame of
            each actor's first body, ``(num_envs * num_actors, 13)``.
        bodies: The same of all bodies, ``(num_envs * num_bodies, 13)``.
        contacts: Net contact forces in N, ``(num_envs * num_bodies, 3)``.
        dof_forces: Forces and torques of actuators, ``(num_envs * num_dofs,)``.
    """

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
        self._built: set[str] = set()
        self._fields: set[str] = set()
        self._is_pushed = self._was_pushed = self._is_changed = False
        self.show_first_states()

    # Building

    def show_first_states(self) -> None:
        """Fill :attr:`roots` and :attr:`dofs` with what the actors were made with."""
        actors = [env.actors for env in self._sim.envs]
        poses = np.array([[_numbers(actor.pose) for actor in row] for row in actors], np.float32)
        self.roots.view(self.num_envs, self.num_actors, 13)[..., :7] = torch.from_numpy(poses)
        states = np.array([np.concatenate([actor.dof_states for actor in row]) for row in actors])
        dofs = np.stack([states["pos"], states["vel"]], axis=-1).reshape(self.dofs.shape)
        self.dofs.copy_(torch.from_numpy(dofs))

    def ensure(self) -> None:
        """Make the simulation, unless it is there, with all environments in their first states."""
        if self.simulation is not None:
            return
        self._build()
        nq = self.scene.model.nq
        self.state[:, :nq] = torch.from_numpy(self.scene.model.qpos0).to(self.state)
        self.set_dofs(self.dofs, None)
        self.set_roots(self.roots, None)
        self._changed.fill_(True)
        self._is_changed = True

    def _build(self) -> None:
        """Make a simulation for what is wanted; states are written to it by the next flush."""
        sim, params = self._sim, self._sim.params
        scene = self.scene = build_scene(sim, tuple(self._fields))
        self._fields |= set(scene.fields)
        names = {field for want in sim.wanted for field in _FIELDS[want]}
        cfg = SimulationCfg(
            dt=scene.model.opt.timestep,
            backend=BACKEND,
            data_fields=tuple(sorted(names)),
            model_fields=tuple(scene.fields),
        )
        if self.simulation is not None:
            self.simulation.close()
        self.simulation = create_simulation(
            cfg,
            scene.model,
            self.num_envs,
            decimation=max(1, params.substeps),
            device=self.device,
            num_threads=max(1, usable_cores() // launched_local_world_size()),
        )
        self._write_fields()
        self._built = set(sim.wanted)
        if not hasattr(self, "state"):
            self._allocate()
        self._index()

    def _write_fields(self) -> None:
        assert self.simulation is not None
        for name, values in self.scene.fields.items():
            self.simulation.params[name].copy_(torch.from_numpy(values))
        if self.scene.fields:
            self.simulation.apply_params()

    def _allocate(self) -> None:
        model, count = self.scene.model, self.num_envs
        self.state = self._zeros(count, model.nq + model.nv)
        self.ctrl = self._zeros(count, model.nu)
        self.wrench = self._zeros(count, self.num_bodies, 6)
        self._changed = torch.zeros(count, dtype=torch.bool, device=self.device)

    def _index(self) -> None:
        """Note where each degree of freedom and each root lies in :attr:`state`."""
        scene, model = self.scene, self.scene.model
        positions = model.jnt_qposadr[scene.dof_joints]
        speeds = model.nq + model.jnt_dofadr[scene.dof_joints]
        self._dof_columns = self._ids(np.stack([positions, speeds], axis=-1).reshape(-1))
        self._speed_columns = self._ids(speeds)
        self._body_ids = self._ids(scene.bodies)
        self._body_roots = self._ids(model.body_rootid[scene.bodies])
        self._dof_actors = self._ids(scene.dof_actors)
        self._floating = [number for number, joint in enumerate(scene.free_joints) if joint >= 0]
        columns = []
        for number in self._floating:
            joint = scene.free_joints[number]
            q, v = int(model.jnt_qposadr[joint]), model.nq + int(model.jnt_dofadr[joint])
            columns += [q, q + 1, q + 2, q + 4, q + 5, q + 6, q + 3, *range(v, v + 6)]
        self._root_columns = self._ids(columns)
        self._floating_ids = self._ids(self._floating)
        properties = np.concatenate([actor.dof_properties for actor in self._sim.envs[0].actors])
        modes = torch.tensor(properties["driveMode"].tolist(), device=self.device)
        self._is_mode = {mode: modes == mode for mode in DofDriveMode}
        self._is_effort = ~(
            self._is_mode[DofDriveMode.DOF_MODE_POS] | self._is_mode[DofDriveMode.DOF_MODE_VEL]
        )
        self._stiff = None
        if scene.drives is not None and scene.drives.is_stiff.any():
            self._stiff = StiffDrives(
                scene.drives,
                self._ids(positions),
                self._speed_columns,
                self._sim.params.dt,
                model.opt.timestep,
            )
        limits = torch.tensor(properties["velocity"].tolist(), device=self.device)
        self._speed_limits = torch.where(limits > 0, limits, UNLIMITED)
        self._has_speed_limits = bool((self._speed_limits < 1e6).any())
        if FORCE_SENSOR in self._built:
            self.force_sensors.index(scene, self.device)
        for matrix in (*self._jacobians.values(), *self._mass_matrices.values()):
            matrix.index(scene, self.device)

    def want(self, name: str) -> None:
        """Let a tensor be refreshed from now on."""
        self._sim.wanted.add(name)

    def renew(self) -> None:
        """Take over properties that have changed since the simulation was made, if it was."""
        if self.simulation is None:
            return
        scene = build_scene(self._sim, tuple(self._fields))
        before = self.scene.shared
        self._fields |= {
            name
            for name, values in scene.shared.items()
            if name in before and not np.array_equal(values, before[name])
        }
        if self._fields <= set(scene.fields) == set(self.simulation.params):
            self.scene.fields = scene.fields
            self._write_fields()
            self._index()
        else:
            self.rebuild()

    def rebuild(self) -> None:
        """Make the simulation anew, with the states that it has."""
        if self.simulation is not None:
            self._build()
            self._changed[:] = True
            self._is_changed = True

    # Steps

    def step(self) -> None:
        """Run one simulation step."""
        simulation = self.flushed()
        stiff = self._stiff
        controls = self.ctrl if stiff is None else stiff.bound(self.ctrl, self.state)
        simulation.ctrl.copy_(controls)
        if self._is_pushed or self._was_pushed:
            simulation.apply_wrench(self.scene.bodies, self.wrench[..., :3], self.wrench[..., 3:])
        simulation.step()
        self._pull(simulation)
        if stiff is not None:
            stiff.observe(self.state)
        self._limit_speeds(simulation)
        # Efforts and forces are of one step, targets stay.
        self.ctrl.masked_fill_(self._is_effort, 0.0)
        self._was_pushed = self._is_pushed
        if self._is_pushed:
            self.wrench.zero_()
            self._is_pushed = False

    def _pull(self, simulation: Simulation) -> None:
        torch.cat((simulation.data.qpos, simulation.data.qvel), dim=1, out=self.state)

    def _limit_speeds(self, simulation: Simulation) -> None:
        """Bound DOF velocities as PhysX does; MuJoCo has no such limit."""
        if not self._has_speed_limits:
            return
        speeds = self.state.index_select(1, self._speed_columns)
        is_over = (speeds.abs() > self._speed_limits).any(dim=1)
        if self.device.type == "cpu" and not bool(is_over.any()):
            return
        bounded = torch.clamp(speeds, -self._speed_limits, self._speed_limits)
        self.state.index_copy_(1, self._speed_columns, bounded)
        simulation.set_velocity(is_over, self.state[:, self.scene.model.nq :].contiguous())

    def flushed(self) -> Simulation:
        """Return the simulation, which has everything that has been set."""
        self.ensure()
        if self._built != self._sim.wanted:
            self.rebuild()
        assert self.simulation is not None
        if self._is_changed:
            nq = self.scene.model.nq
            self.simulation.reset(
                self._changed, self.state[:, :nq].contiguous(), self.state[:, nq:].contiguous()
            )
            self._changed.zero_()
            self._is_changed = False
        return self.simulation

    # Tensors

    def refresh_dofs(self) -> None:
        """Rewrite :attr:`dofs`."""
        self.ensure()
        out = self.dofs.view(self.num_envs, 2 * self.num_dofs)
        torch.index_select(self.state, 1, self._dof_columns, out=out)

    def refresh_roots(self) -> None:
        """Rewrite :attr:`roots`; fixed actors stand where they stand."""
        self.ensure()
        rows = self.state[:, self._root_columns].view(self.num_envs, -1, 13)
        # MuJoCo has the angular velocity of a floating body in the body's frame.
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
        # Velocities are of the point of a body that is at its tree's centre of mass.
        offset = positions - data.subtree_com[:, self._body_roots]
        linear = velocities[..., 3:] + torch.linalg.cross(velocities[..., :3], offset)
        out = self.bodies.view(self.num_envs, self.num_bodies, 13)
        torch.cat(
            (positions, quats[..., 1:], quats[..., :1], linear, velocities[..., :3]),
            dim=-1,
            out=out,
        )

    def refresh_contacts(self) -> None:
        """Rewrite :attr:`contacts`, with those of the last physics step."""
        simulation = self.flushed()
        first = self._sensor_address(CONTACT)
        values = simulation.data.sensordata[:, first : first + 3 * self.num_bodies]
        # The sensor has the force that a body exerts.
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

    # Setters

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
        """Let actors without a floating root stand elsewhere."""
        roots = self.roots.view(self.num_envs, self.num_actors, 13)
        moved = False
        for number in set(range(self.num_actors)) - set(self._floating):
            chosen = slice(None) if mask is None else mask[:, number]
            if torch.equal(new[chosen, number, :7], roots[chosen, number, :7]):
                continue
            roots[chosen, number, :7] = new[chosen, number, :7]
            moved = True
            for env in self._sim.envs:
                pose = env.actors[number].pose
                values = roots[env.index, number].tolist()
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
            actors: Actors' indices in the simulation; None: of all.
            mode: Which degrees of freedom take them; ``DOF_MODE_EFFORT``: all without a drive.
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

    def body_quats(self) -> torch.Tensor:
        """Return all bodies' rotations (x, y, z, w), ``(num_envs, num_bodies, 4)``."""
        self.want(BODIES)
        return self.flushed().data.xquat[:, self._body_ids].roll(-1, dims=-1)

    def body_positions(self) -> torch.Tensor:
        """Return where all bodies' frames lie, ``(num_envs, num_bodies, 3)``."""
        self.want(BODIES)
        return self.flushed().data.xpos[:, self._body_ids]

    def body_centres(self) -> torch.Tensor:
        """Return all bodies' centres of mass, ``(num_envs, num_bodies, 3)``."""
        self.want(CENTRES)
        return self.flushed().data.xipos[:, self._body_ids]

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

    def _zeros(self, *size: int) -> torch.Tensor:
        return torch.zeros(*size, device=self.device)

    def _ids(self, values: object) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.int64), device=self.device)


def _numbers(pose: Transform) -> tuple[float, ...]:
    return pose.p.x, pose.p.y, pose.p.z, pose.r.x, pose.r.y, pose.r.z, pose.r.w
