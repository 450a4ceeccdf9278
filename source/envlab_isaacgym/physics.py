"""Runs a world on one of envlab's simulations, and keeps Isaac Gym's tensors of it.

Tensors are made once and rewritten in place by ``refresh_*``. States live in one tensor, positions
then velocities of all degrees of freedom, ``(num_envs, nq + nv)``: values set by a task are written
there, and reaches the simulation with the next step or with the next value that needs kinematics.
"""

from __future__ import annotations

import logging

import numpy as np
import torch

from envlab.distributed.limits import usable_threads
from envlab.distributed.ranks import launched_local_world_size
from envlab.sim.simulation import Simulation, SimulationCfg, create_simulation
from envlab_isaacgym.composition import build_scene, check_alike
from envlab_isaacgym.drives import StiffDrives
from envlab_isaacgym.dynamics import ForceSensors, Jacobian, MassMatrix
from envlab_isaacgym.enums import DofDriveMode
from envlab_isaacgym.parameters import UNLIMITED
from envlab_isaacgym.readings import BODIES, CENTRES, DOF_FORCE, JACOBIAN, MASS_MATRIX
from envlab_isaacgym.scene import CONTACT, FORCE_SENSOR
from envlab_isaacgym.settings import Settings
from envlab_isaacgym.values import Transform
from envlab_isaacgym.world import Sim

logger = logging.getLogger(f"envlab.{__name__}")

BACKEND = "auto"
"""The envlab simulation that runs a world; tests use ``mujoco_warp`` on Warp's CPU device."""
_FIELDS = {
    BODIES: ("xpos", "xquat", "cvel", "subtree_com"),
    CENTRES: ("xipos",),
    DOF_FORCE: ("qfrc_actuator",),
    CONTACT: ("sensordata",),
    FORCE_SENSOR: ForceSensors.FIELDS,
    JACOBIAN: Jacobian.FIELDS,
    MASS_MATRIX: MassMatrix.FIELDS,
}
"""Fields of MjData from which a wanted tensor is made."""


class Physics(Settings):
    """A simulation of a world, which is made on first use."""

    def __init__(self, sim: Sim) -> None:
        check_alike(sim.envs)
        super().__init__(sim)
        self._built: set[str] = set()
        self._was_pushed = self._is_stale = False
        self.show_first_states()

    # Building

    def show_first_states(self) -> None:
        """Fill :attr:`roots` and :attr:`dofs` with the actors' initial states."""
        actors = [env.actors for env in self._sim.envs]
        poses = np.array([[_numbers(actor.pose) for actor in row] for row in actors], np.float32)
        self._root_poses = torch.from_numpy(poses).to(self.device)
        self.roots.view(self.num_envs, self.num_actors, 13)[..., :7] = self._root_poses
        states = np.array([np.concatenate([actor.dof_states for actor in row]) for row in actors])
        dofs = np.stack([states["pos"], states["vel"]], axis=-1).reshape(self.dofs.shape)
        self.dofs.copy_(torch.from_numpy(dofs))

    def ensure(self) -> None:
        """Make the simulation, unless it exists, with all environments in their first states."""
        if self.simulation is not None:
            if self._is_stale:
                self._take_over_properties(self.simulation)
            return
        self._build()
        nq = self.scene.model.nq
        self.state[:, :nq] = torch.from_numpy(self.scene.model.qpos0).to(self.state)
        self.set_dofs(self.dofs, None)
        self.set_roots(self.roots, None)
        self._changed.fill_(True)
        self._is_changed = True

    def _build(self) -> None:
        """Make a simulation for the wanted tensors; states are written to it by the next flush."""
        sim = self._sim
        self._is_stale = False
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
            decimation=sim.physics_steps,
            device=self.device,
            num_threads=usable_threads(launched_local_world_size()),
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

    def renew(self) -> None:
        """Take over properties with the next step; tasks change one actor after another."""
        self._is_stale = True

    def _take_over_properties(self, simulation: Simulation) -> None:
        self._is_stale = False
        scene = build_scene(self._sim, tuple(self._fields))
        before = self.scene.shared
        self._fields |= {
            name
            for name, values in scene.shared.items()
            if name in before and not np.array_equal(values, before[name])
        }
        is_alike = scene.pairs == self.scene.pairs
        if is_alike and self._fields <= set(scene.fields) == set(simulation.params):
            self.scene.fields, self.scene.shared = scene.fields, scene.shared
            self.scene.drives = scene.drives
            self._write_fields()
            self._index()
        else:
            self.rebuild()

    def rebuild(self) -> None:
        """Remake the simulation, with its current states."""
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
        # Efforts and forces last one step, targets stay.
        self.ctrl.masked_fill_(self._is_effort, 0.0)
        self._was_pushed = self._is_pushed
        if self._is_pushed:
            self.wrench.zero_()
            self._is_pushed = False

    def _pull(self, simulation: Simulation) -> None:
        torch.cat((simulation.data.qpos, simulation.data.qvel), dim=1, out=self.state)

    def _limit_speeds(self, simulation: Simulation) -> None:
        """Bound DOF velocities like PhysX; MuJoCo has no such limit."""
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
        """Return the simulation, after writing all set values to it."""
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


def _numbers(pose: Transform) -> tuple[float, ...]:
    return pose.p.x, pose.p.y, pose.p.z, pose.r.x, pose.r.y, pose.r.z, pose.r.w
