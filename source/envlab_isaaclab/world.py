"""The simulation below PhysX's views: one model, its states and properties, in all environments.

States and properties are written here. They reach the simulation with its next step, or when a
quantity that depends on them is read. A script reveals only while it runs which sensors, properties
that differ between environments and fields to read the model needs. So the simulation is created at
its first use, and created again, in the same state, when the script needs more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
import torch

from envlab.distributed.limits import usable_threads
from envlab.distributed.ranks import launched_local_world_size
from envlab.envs.composition import quiet_compiling, quiet_conflicts
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim.simulation import Simulation, SimulationCfg, create_simulation
from envlab_isaaclab.stage import ENVS, Spawned, Stage
from envlab_isaaclab.things import Body, Composer, Material, Robot, Terrain

logger = logging.getLogger(f"envlab.{__name__}")

BACKEND = "auto"


class World:
    """See the module.

    Attributes:
        model: The model of an environment.
        qpos: Positions of all environments, ``(num_envs, nq)``, MuJoCo's.
        qvel: Velocities, ``(num_envs, nv)``.
        ctrl: Forces that actuators give at the joints' zero positions, ``(num_envs, nu)``.
        origins: What lies between an environment's coordinates and the world's, in m,
            ``(num_envs, 3)``; zero on a terrain, on which coordinates are the world's.
        frame: Number of physics steps.
    """

    def __init__(self, stage: Stage, cfg: Any, device: torch.device) -> None:
        self.stage, self.device, self.dt = stage, device, float(cfg.dt)
        self.num_envs = stage.num_envs
        material = Material.of(cfg.physics_material) or Material()
        composer = Composer(material, cfg.gravity, self.dt)
        with quiet_conflicts():
            for path, spawned in stage.spawned.items():
                composer.add(path, spawned)
            self.spec = composer.finish()
        self.materials, self.ground = composer.materials, composer.ground or material
        self._add_motors()
        self.model = self._compile()
        on_terrain = any(isinstance(one.thing, Terrain) for one in stage.spawned.values())
        self._check_places(on_terrain)
        origins = np.zeros((self.num_envs, 3)) if on_terrain else stage.origins
        self.origins = torch.as_tensor(origins, dtype=torch.float32, device=device)
        model = self.model
        self.qpos = torch.tensor(model.qpos0, dtype=torch.float32, device=device).repeat(
            self.num_envs, 1
        )
        self.qvel = torch.zeros(self.num_envs, model.nv, device=device)
        self.ctrl = torch.zeros(self.num_envs, model.nu, device=device)
        self.frame = 0
        self._fields: dict[str, torch.Tensor] = {}
        self._wanted: set[str] = set()
        self._is_behind = False
        self._changed_fields = torch.zeros(self.num_envs, dtype=torch.bool, device=device)
        self._moved = torch.zeros_like(self._changed_fields)
        self._sped = torch.zeros_like(self._changed_fields)
        self._is_changed = self._is_moved = self._is_sped = self._is_pushed = False
        self._simulation: Simulation | None = None
        self._num_bad = 0

    # What the model has

    def _add_motors(self) -> None:
        """Give each joint an actuator: a force, and a spring and a damper set by properties."""
        for joint in self.spec.joints:
            if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
                motor = self.spec.add_actuator(
                    name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
                )
                motor.gaintype = mujoco.mjtGain.mjGAIN_FIXED
                motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE
                motor.forcelimited = True
                motor.forcerange = [-1e30, 1e30]

    def _compile(self) -> mujoco.MjModel:
        try:
            with quiet_compiling():
                return self.spec.compile()
        except ValueError as error:
            names = ", ".join(self.stage.spawned)
            raise SimulationError(
                f"MuJoCo cannot compile the scene of {names}: {' '.join(str(error).split())}"
            ) from error

    def _check_places(self, on_terrain: bool) -> None:
        """Refuse fixed things beside free ones in environments that stand on a terrain.

        Raises:
            ConfigurationError: With the first of them.
        """
        for path, spawned in self.stage.spawned.items():
            thing = spawned.thing
            is_free = (isinstance(thing, Robot) and not thing.is_fixed) or (
                isinstance(thing, Body) and not thing.is_placed
            )
            if on_terrain and path.startswith(f"{ENVS}/") and not is_free:
                raise ConfigurationError(
                    f"{path} is fixed in its environment, which stands on a generated terrain, "
                    "but all environments share one model, in which it has one place. Put such "
                    "a scene on a plane."
                )

    def thing_at(self, path: str) -> tuple[str, Spawned] | None:
        """Return what was spawned at a path or above it, None if nothing was."""
        while path.count("/") > 1:
            spawned = self.stage.spawned.get(path)
            if spawned is not None:
                return path, spawned
            path = path.rpartition("/")[0]
        return None

    def want(self, names: Iterable[str]) -> None:
        """Keep fields of MjData from now on."""
        if not self._wanted.issuperset(names):
            self._wanted |= set(names)
            self._rebuild()

    def add_sensor(self, name: str, **settings: Any) -> slice:
        """Return where a sensor's readings lie; add the sensor if the model lacks it."""
        if self.spec.sensor(name) is None:
            self.spec.add_sensor(name=name, **settings)
            self.model = self._compile()
            self._wanted.add("sensordata")
            self._rebuild()
        index = self.model.sensor(name).id
        start = int(self.model.sensor_adr[index])
        return slice(start, start + int(self.model.sensor_dim[index]))

    def add_camera(
        self,
        name: str,
        body: str,
        pos: Sequence[float],
        quat: Sequence[float],
        pixels: PinholeCameraPatternCfg,
    ) -> None:
        """Add a camera to a body; to the world if that is empty."""
        above = self.spec.body(body) if body else self.spec.worldbody
        pixels.write(above.add_camera(name=name, pos=pos, quat=quat))
        self.model = self._compile()
        self._rebuild()

    # Properties

    def read_field(self, name: str) -> torch.Tensor:
        """Return a field of MjModel in all environments, ``(num_envs, ...)``; not to be written."""
        if name in self._fields:
            return self._fields[name]
        row = torch.as_tensor(np.array(_field(self.model, name)), dtype=torch.float32)
        return row.to(self.device).expand(self.num_envs, *row.shape)

    def write_field(
        self, name: str, envs: torch.Tensor, columns: Any, values: torch.Tensor
    ) -> None:
        """Change columns of a field of MjModel in some environments.

        Args:
            name: The field.
            envs: Indices of environments, ``(k,)``.
            columns: What to change of each row: indices ``(m,)``, or a tuple of them and a column.
            values: ``(k, m, ...)``.
        """
        if name not in self._fields:
            self._fields[name] = self.read_field(name).clone()
        key = columns if isinstance(columns, tuple) else (columns,)
        envs = envs.to(self.device).long()
        self._fields[name][(envs[:, None], key[0][None, :], *key[1:])] = values.to(self.device)
        self._changed_fields[envs] = True
        self._is_changed = True

    def set_gravity(self, gravity: tuple[float, ...]) -> None:
        """Change gravity, in m/s², in all environments."""
        envs = torch.arange(self.num_envs, device=self.device)
        values = torch.tensor(gravity, device=self.device).expand(self.num_envs, 3)
        self.write_field("opt.gravity", envs, torch.arange(3, device=self.device), values)

    def write_camera(self, name: str, envs: torch.Tensor, field: str, values: torch.Tensor) -> None:
        """Change a field of a camera, ``(k, ...)``, of which its pose follows at once."""
        column = torch.tensor([self.model.camera(name).id], device=self.device)
        self.write_field(field, envs, column, values[:, None])
        self._moved[envs] = True
        self._is_moved = True

    # States

    def move(self, envs: torch.Tensor, columns: torch.Tensor, values: torch.Tensor) -> None:
        """Write positions ``(k, m)`` of columns of :attr:`qpos`."""
        self.qpos[envs[:, None], columns[None, :]] = values
        self._moved[envs] = True
        self._is_moved = True

    def speed(self, envs: torch.Tensor, columns: torch.Tensor, values: torch.Tensor) -> None:
        """Write velocities ``(k, m)`` of columns of :attr:`qvel`."""
        self.qvel[envs[:, None], columns[None, :]] = values
        self._sped[envs] = True
        self._is_sped = True

    def push(self, bodies: torch.Tensor, force: torch.Tensor, torque: torch.Tensor) -> None:
        """Let wrenches act on bodies' centres of mass in the next step, ``(num_envs, k, 3)``."""
        self.simulation.apply_wrench(bodies.tolist(), force, torque)
        self._is_pushed = True

    @property
    def simulation(self) -> Simulation:
        """The simulation, with all that was written; poses and velocities of bodies are current."""
        simulation = self._written()
        if self._is_behind:
            simulation.refresh()
            self._is_behind = False
        return simulation

    @property
    def data(self) -> Any:
        """The fields of MjData that are kept."""
        return self.simulation.data

    @property
    def forces(self) -> Any:
        """The same where only forces, the last physics step's, are read: costs no refresh."""
        return self._written().data

    def step(self) -> None:
        """Run one physics step; bodies' poses and velocities are computed when they are read."""
        simulation = self._written()
        simulation.ctrl.copy_(self.ctrl)
        simulation.step()
        if self._is_pushed:
            simulation.xfrc_applied.zero_()
            self._is_pushed = False
        self._is_behind = True
        self._take_states(simulation)
        self.frame += 1

    def state(self) -> dict[str, Any]:
        """Return copies on the CPU of all that the next step depends on."""
        simulation = self.simulation.state()
        parts = {"qpos": self.qpos, "qvel": self.qvel, "ctrl": self.ctrl}
        return {
            **{name: values.cpu().clone() for name, values in parts.items()},
            "fields": {name: values.cpu().clone() for name, values in self._fields.items()},
            "wanted": sorted(self._wanted),
            "frame": self.frame,
            "num_bad": self._num_bad,
            "simulation": simulation,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned, in a world of the same scene."""
        for name in ("qpos", "qvel", "ctrl"):
            getattr(self, name).copy_(state[name])
        self._fields = {name: one.to(self.device) for name, one in state["fields"].items()}
        self.frame, self._num_bad = state["frame"], state["num_bad"]
        self.want(state["wanted"])
        names = {f"params.{name}" for name in self.simulation.params}
        if names != {name for name in state["simulation"] if name.startswith("params.")}:
            self._rebuild()
        self.simulation.set_state(state["simulation"])

    def close(self) -> None:
        """Free the simulation."""
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None

    # ----------------------------------------------------------------------------------------------

    def _written(self) -> Simulation:
        if self._simulation is None:
            self._simulation = self._build()
        elif self._is_changed:
            self._write_fields()
        if self._is_moved or self._is_sped:
            self._write_states(self._simulation)
        return self._simulation

    def _rebuild(self) -> None:
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None
            self._moved.fill_(True)
            self._is_moved = True

    def _build(self) -> Simulation:
        """Make the simulation: properties that are alike are the model's own."""
        rows = {}
        for name, values in self._fields.items():
            if bool((values == values[:1]).all()):
                _field(self.model, name)[:] = values[0].cpu().double().numpy()
            else:
                rows[name] = values
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
        cfg = SimulationCfg(
            dt=self.dt,
            backend=BACKEND,
            data_fields=tuple(sorted(self._wanted)),
            model_fields=tuple(sorted(rows)),
        )
        made = create_simulation(
            cfg,
            self.model,
            self.num_envs,
            decimation=1,
            device=self.device,
            num_threads=usable_threads(launched_local_world_size()),
        )
        made.defer_refresh()
        for name, values in rows.items():
            made.params[name].copy_(values)
        if rows:
            made.apply_params()
        self._is_changed = False
        self._changed_fields.fill_(False)
        self._moved.fill_(True)
        self._is_moved = True
        return made

    def _write_fields(self) -> None:
        simulation = self._simulation
        assert simulation is not None
        if any(name not in set(simulation.params) for name in self._fields):
            for name, values in self._fields.items():
                if name not in set(simulation.params) and not torch.equal(
                    values, values.new_tensor(np.array(_field(self.model, name))).expand_as(values)
                ):
                    self._rebuild()
                    self._simulation = self._build()
                    return
        for name in simulation.params:
            simulation.params[name].copy_(self._fields[name])
        if list(simulation.params):
            simulation.apply_params(self._changed_fields)
        self._is_changed = False
        self._changed_fields.fill_(False)

    def _write_states(self, simulation: Simulation) -> None:
        if self._is_moved:
            simulation.reset(self._moved, self.qpos, self.qvel)
            self._sped &= ~self._moved
        if bool(self._sped.any()):
            simulation.set_velocity(self._sped, self.qvel)
        self._moved.fill_(False)
        self._sped.fill_(False)
        self._is_moved = self._is_sped = False

    def _take_states(self, simulation: Simulation) -> None:
        bad = simulation.bad()
        self.qpos.copy_(simulation.data.qpos)
        self.qvel.copy_(simulation.data.qvel)
        if bool(bad.any()):
            if self._num_bad == 0:
                logger.warning(
                    "The simulation of environment %d became unstable and restarts from the "
                    "model's own pose; others that become unstable will also restart. Smaller "
                    "sim.dt or gains help.",
                    int(bad.nonzero()[0]),
                )
            self._num_bad += int(bad.sum())
            self.qpos[bad] = self.qpos.new_tensor(self.model.qpos0)
            self.qvel[bad] = 0.0
            self._moved |= bad
            self._is_moved = True


def _field(model: mujoco.MjModel, name: str) -> np.ndarray:
    """Return an array of a model by its name in ``env.sim.model_fields``, ``opt.gravity`` too."""
    if name.startswith("opt."):
        return np.asarray(getattr(model.opt, name.removeprefix("opt.")))
    return np.asarray(getattr(model, name))
