"""Environments with physics: :class:`VectorEnv`, which owns a :class:`Simulation`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from envlab.distributed.readings import Readings
from envlab.envs._actuator_delays import ActuatorDelays, simulation_with_delays
from envlab.envs._wrenches import StagedWrenches
from envlab.envs.batched_env import BatchedEnv, Observations, Step
from envlab.envs.cfg import EnvCfg
from envlab.envs.checks import check_memory
from envlab.envs.episodes import Log
from envlab.envs.masks import kept_rows
from envlab.envs.nan_guard import NanGuard
from envlab.envs.painter import Painter
from envlab.envs.scene import build_scene
from envlab.envs.scene_data import Scene
from envlab.envs.skin import Look, wear
from envlab.envs.terrain import Terrain
from envlab.envs.torch_actuators import torch_actuators
from envlab.envs.variants import fields_of, give_variants
from envlab.errors import ConfigurationError
from envlab.sim.compiled import check_compiler_cache, compiled_graphs
from envlab.sim.host import SMALL_BATCH, OneThread, as_on_a_gpu
from envlab.sim.recordable import Undo
from envlab.sim.recording import NewGraphs, Recording, check_graph, cuda_graphs
from envlab.sim.simulation import (
    Simulation,
    SimulationCfg,
    create_simulation,
    mocap_poses,
    model_field,
)
from envlab.state import State

BYTES = {False: (500, 60), True: (200, 35)}
"""Bytes of an environment, and of each number in its state, actions and sensors, at least: with
MuJoCo, and by closed forms. Measured on Cartpole, Ant and the quadcopter."""
MARGIN = 8
"""Pixels around images in a picture."""
_SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


class VectorEnv(BatchedEnv):
    """``num_envs`` copies of one MuJoCo model that are stepped together.

    Use :class:`envlab.envs.DirectEnv`, :class:`envlab.envs.ManagerEnv` or, for several agents,
    :class:`envlab.envs.DirectMarlEnv`. In addition to those of :class:`BatchedEnv` there are

    Attributes:
        cfg: The task's configuration.
        sim: The physics.
        env_origins: Each environment's origin in the shared world, in m, ``(num_envs, 3)``; zero
            except on generated terrain.
        terrain: Generated ground, with the level of each environment; None on a plane.
        staged_wrenches: External wrenches from events, applied after the resets.
        constants: Tensors that terms derive from the model once and keep, by the terms' own keys.
        derived: Results of :meth:`once`, with the state and version that they belong to.
        torch_actuators: Actuators that torch computes in each physics step; None: none.
        default_qpos: Positions of the pose in which episodes start, ``(1, nq)``.
        default_qpos_rows: The same for each environment, ``(num_envs, nq)``: subtracting as many
            rows takes a third of the time of subtracting one.
        reset_qpos: Positions that a reset will write, ``(num_envs, nq)``; reset terms edit it.
        reset_qvel: Velocities that a reset will write, ``(num_envs, nv)``.
    """

    STATE = State(per_env=("sim", "obs_buf"), parts=("nan_guard", "terrain", "torch_actuators"))
    cfg: EnvCfg
    event_manager: Any = None
    """The :class:`envlab.envs.managers.EventManager` of the task's events, if it has any."""
    model_spec: mujoco.MjSpec
    """The model as it was compiled, only while the environment is made."""
    recording: RecordedStep | None = None
    sensor_cameras: set[str]
    """Names of the cameras that sensors added to the model, which show no pictures by default."""
    look: Look | None = None
    """What robots look like in pictures (``env.scene.skin``); None: as in the physics."""
    _painter: Painter | None = None
    is_staging = False
    """Whether a reset's terms run, which edit :attr:`reset_qpos` and :attr:`reset_qvel`."""
    also_placed: torch.Tensor | None = None
    """Environments that a reset's terms put into another state while their episodes continue, bool
    ``(num_envs,)``; None: none."""
    is_rehearsing = False
    """Whether steps are made only to be recorded, and will be undone."""

    @property
    def physics_dt(self) -> float:
        """Physics time step, in seconds."""
        return self.sim.physics_dt

    @property
    def step_dt(self) -> float:
        return self.sim.step_dt

    @property
    def max_episode_length(self) -> int:
        return self.cfg.max_episode_length

    @property
    def last_qpos(self) -> torch.Tensor:
        """Positions before this step's physics, ``(num_envs, nq)``, for rewards of progress."""
        return self.nan_guard.last_qpos

    def reset(  # type: ignore[override]
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        with _branches(self._is_compiled):
            return super().reset(seed=seed, options=options)

    def nominal(self, name: str) -> torch.Tensor:
        """Return the shared model's own values of a field, float32, as compiled."""
        if name not in self._nominal:
            # Kept, because a copy to a GPU in every reset would make the reset wait.
            self._nominal[name] = torch.as_tensor(
                model_field(self.sim.model, name), dtype=torch.float32, device=self.device
            )
        return self._nominal[name]

    def nominal_rows(self, name: str) -> torch.Tensor:
        """Return the same for each environment, ``(num_envs, ...)``, or for all, ``(1, ...)``.

        They differ where a thing has variants.
        """
        own = self._nominal_rows.get(name)
        return self.nominal(name).unsqueeze(0) if own is None else own

    @functools.cached_property
    def scene(self) -> Scene:
        """The things of the scene by name: ``env.scene["robot"].data.joint_pos``."""
        return Scene(self)

    def once(self, key: Hashable, compute: Callable[[], Any], version: int = 0) -> Any:
        """Return what ``compute`` does, computed once for all who ask before the state changes.

        They get the same tensors, and must not write to them.

        Args:
            key: Equal for all who ask for the same.
            compute: Called where it is not known yet.
            version: A number that changes with whatever else the result depends on.
        """
        now = self.sim.num_changes, version
        kept = self.derived.get(key)
        if kept is None or kept[0] != now:
            kept = self.derived[key] = now, compute()
        return kept[1]

    def joint_positions(self) -> dict[str, torch.Tensor]:
        """Return the positions of hinges (rad) and slides (m) by name, ``(num_envs,)`` each."""
        model = self.sim.model
        return {
            model.joint(i).name: self.sim.data.qpos[:, int(model.jnt_qposadr[i])]
            for i in range(model.njnt)
            if int(model.jnt_type[i]) in _SCALAR
        }

    def ask_health(self, readings: Readings) -> None:
        super().ask_health(readings)
        self.nan_guard.ask(readings)

    def check_health(self) -> None:
        """Report environments that failed or overflowed since the last call. Waits for the GPU.

        Raises:
            SimulationError: If too many failed, as in :meth:`BatchedEnv.check_health`, or some
                overflowed for the second time.
        """
        super().check_health()
        self.nan_guard.check_memory()

    def before_restore(self) -> None:
        """Forget what graphs and events would still do; see :mod:`envlab.state`."""
        if self.recording is not None:
            self.recording.forget()
        self.staged_wrenches.forget()
        self.obs_buf = {}  # the latest ones, which were returned, stay as they are

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return a picture of environment 0, uint8 ``(height, width, 3)``."""
        return None if self.render_mode is None else self.picture()

    def picture(self, index: int = 0, *, height: int = 360, width: int = 640) -> np.ndarray:
        """Return a picture of one environment, uint8 ``(height, width, 3)``.

        Anything shown in addition to bodies, such as goals, is environment 0's and only in its
        picture. Images of cameras are in the lower right corner.
        """
        if self._painter is None or self._painter.size != (height, width):
            self._close_painter()
            self._painter = Painter(self.sim, self.look, height=height, width=width)
        add_markers = self.add_markers if index == 0 else None
        picture = self._painter.draw(index, self._camera(), add_markers)
        sensors = getattr(self, "sensor_manager", None)
        if sensors is not None:
            inset(picture, list(sensors.previews(index).values()))
        return picture

    def close(self, **kwargs: Any) -> None:
        """Free the renderer and the simulation."""
        self._close_painter()
        self.sim.close()

    def _close_painter(self) -> None:
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    # For subclasses to define ---------------------------------------------------------------------

    def _simulation_cfg(self, cfg: EnvCfg) -> SimulationCfg:
        """Return the settings of the physics, including those that the task's parts need."""
        return cfg.sim

    def edit_spec(self, spec: mujoco.MjSpec) -> None:
        """Change the scene before it is compiled: ``prestartup`` events, and sensors."""

    def _setup(self) -> None:
        """Prepare the task: called once, when the simulation exists."""

    def _substep_controls(self) -> Mapping[str, Callable[[], None]]:
        """Return what writes controls before each physics step, by a name for errors.

        Without any, and without actuators in torch, a control step is one call of the simulation.
        """
        return {}

    def _begin_reset(self, mask: torch.Tensor) -> None:
        """Do what precedes :meth:`_reset_envs`, once the default state is staged."""

    def _reset_envs(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Edit ``reset_qpos`` and ``reset_qvel`` and drop the state of the ended episodes.

        Isaac Lab's ``_reset_idx``, with a mask instead of indices, which a GPU need not count.

        Args:
            mask: Environments to reset, bool ``(num_envs,)``.
            count: Their number, at least 1; a plain number on a CPU, else 0-d.

        Returns:
            The log: means over the episodes that end, numbers or 0-d.
        """
        return {}

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        """Add markers of environment 0 to its pictures, such as goals."""

    # --------------------------------------------------------------------------------------------

    def _find_device(self) -> torch.device:
        sim_cfg = self._simulation_cfg(self.cfg)
        self._is_compiled = self.cfg.graph == "compiled"
        check_graph(self.cfg.graph, self.context.device)
        if self._is_compiled:
            check_compiler_cache()
        self.sensor_cameras = set()
        self.model_spec, model, self._variants = build_scene(
            self.cfg.scene, sim_cfg, self.edit_spec
        )
        varied = dict.fromkeys((*sim_cfg.model_fields, *fields_of(self._variants)))
        sim_cfg = replace(sim_cfg, model_fields=tuple(varied))
        base, per_number = BYTES[sim_cfg.backend == "analytic"]
        numbers = model.nq + model.nv + model.nu + model.nsensordata
        check_memory(self.num_envs, base + per_number * numbers, self.context)
        self.sim: Simulation = create_simulation(
            simulation_with_delays(sim_cfg, self.cfg.scene.all_actuators),
            model,
            self.num_envs,
            decimation=self.cfg.decimation,
            device=self.context.device,
            num_threads=self.context.num_threads,
        )
        self.repeats_exactly = self.sim.repeats_exactly
        return self.sim.device

    def _build(self) -> None:
        with _branches(self._is_compiled):
            self._prepare()
            self._setup()
            self._prepare_substeps()
            self._make_spaces()
            self.reset()
        if self.cfg.scene.skin is not None:
            self.look = wear(self.model_spec, self.cfg.scene.skin)
        del self.model_spec
        size = sum(values.numel() for values in tree_leaves(self.obs_buf))
        self._stepping = OneThread(self.device.type == "cpu" and size <= SMALL_BATCH)
        if self._is_compiled:
            self.record_steps(
                compiled_graphs(self.device), asked="env.graph=compiled", is_required=True
            )
        elif self.cfg.graph != "off" and self.device.type == "cuda":
            is_required = self.cfg.graph == "on"
            self.record_steps(asked=f"env.graph={self.cfg.graph}", is_required=is_required)

    def record_steps(self, new_graphs: NewGraphs = cuda_graphs, **options: Any) -> RecordedStep:
        """Record steps from now on; see :class:`RecordedStep`."""
        compiled = self._is_compiled
        self.recording = RecordedStep(self, new_graphs, is_compiled=compiled, **options)
        return self.recording

    def _explain_failures(self) -> str:
        path = self._save_failure(self.nan_guard.failed_states())
        named = self._name_failing_terms()
        if named:
            return f"{named} Their states and actions before the step are in {path}."
        return (
            f"Their states and actions before the step are in {path}; a smaller env.sim.dt or "
            "smaller actions usually help."
        )

    def _name_failing_terms(self) -> str:
        found = {one.name: one.not_finite() for one in self.torch_actuators or ()}
        texts = [f"{name!r} of {', '.join(joints)}" for name, joints in found.items() if joints]
        if not texts:
            return ""
        return f"Efforts of actuators are not finite: {'; '.join(texts)}. Correct their models."

    def _prepare(self) -> None:
        """Create what all tasks need for steps and resets in addition to the simulation."""
        model, cfg = self.sim.model, self.cfg
        key = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
        qpos = model.qpos0 if key < 0 else model.key_qpos[key]
        row = torch.as_tensor(np.asarray(qpos), dtype=torch.float32, device=self.device)
        self.default_qpos = row.unsqueeze(0)
        # In the backend's own layout, which may be transposed.
        self.default_qpos_rows = torch.empty_like(self.sim.data.qpos).copy_(self.default_qpos)
        self.reset_qpos = self.default_qpos_rows.clone()
        self.reset_qvel = torch.zeros_like(self.sim.data.qvel)
        self._default_state = [self.default_qpos_rows, self.reset_qvel.clone()]
        self.env_origins = torch.zeros(self.num_envs, 3, device=self.device)
        self.terrain: Terrain | None = None
        if cfg.scene.terrain is not None:
            world_size = self.context.world_size
            self.terrain = Terrain(cfg.scene.terrain, model, self.random, world_size)
            self.env_origins = self.terrain.env_origins
        self._mocap_home = mocap_poses(model, self.num_envs, self.device)
        self.constants: dict[Any, torch.Tensor] = {}
        self.derived: dict[Hashable, tuple[tuple[int, int], Any]] = {}
        self._nominal: dict[str, torch.Tensor] = {}
        self._nominal_rows = give_variants(self.sim, self._variants, self.env_ids)
        allows_overflow = self.cfg.sim.allow_overflow
        self.nan_guard = NanGuard(self.sim, self._failures, allows_overflow=allows_overflow)
        self.staged_wrenches = StagedWrenches(self.sim)
        self._delays = ActuatorDelays(cfg.scene.all_actuators, self.sim, self.random)
        self.torch_actuators = torch_actuators(cfg.scene.all_actuators, self.sim, self.random)

    def _restart(self, seed: int) -> None:
        if self.recording is not None:
            self.recording.forget()  # it contains the keys of the streams
        super()._restart(seed)
        if self.terrain is not None:
            self.terrain.restart()

    def _advance(self) -> None:
        if self.event_manager is not None:
            self.event_manager.begin_step()
        self.nan_guard.remember()
        if self._each_substep or self.torch_actuators:
            self._control_each_substep()
        else:
            self.sim.step()
        self.nan_guard.look()

    def _prepare_substeps(self) -> None:
        controls = self._substep_controls()
        if controls and not self.sim.has_substeps:
            raise ConfigurationError(
                f"{next(iter(controls))} is called before each physics step, and "
                "env.sim.backend=analytic has none. Use mujoco, or mujoco_warp."
            )
        self._each_substep = list(controls.values())
        if self._each_substep or self.torch_actuators:
            self.sim.prepare_substeps()

    def _control_each_substep(self) -> None:
        actuators = self.torch_actuators or []
        for number in range(self.sim.decimation):
            if number and self._each_substep:  # which may leave targets of before as they are
                for actuator in actuators:
                    actuator.show_targets()
            for control in self._each_substep:
                control()
            for actuator in actuators:
                if self._each_substep or not number:
                    actuator.take_targets()
                actuator.control()
            self.sim.substep(number)

    def _end_failed(
        self, terminated: torch.Tensor, reward: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.nan_guard.end_failed(terminated, reward)

    def _final_observations(self) -> Observations:
        finite = functools.partial(torch.nan_to_num, posinf=0.0, neginf=0.0)
        observations: Observations = tree_map(finite, self._get_observations())
        return observations

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        torch._foreach_copy_([self.reset_qpos, self.reset_qvel], self._default_state)
        if isinstance(count, torch.Tensor):
            count = count.clamp(min=1)  # without asking a GPU whether there are any
        with kept_rows(mask):
            if self.sim.model.nmocap:
                self._place_mocap_bodies(mask)
            self.is_staging = True
            try:
                self._begin_reset(mask)
                log = self._reset_envs(mask, count)
            finally:
                self.is_staging = False
            self._delays.draw(mask)
            for actuator in self.torch_actuators or ():
                actuator.reset(mask)
            also, self.also_placed = self.also_placed, None
            placed = mask if also is None else mask | also
            self.sim.reset(placed, self.reset_qpos, self.reset_qvel)
            self.staged_wrenches.apply()
            self._clear_lengths(mask)
        return log

    def _place_mocap_bodies(self, mask: torch.Tensor) -> None:
        """Put mocap bodies where the model has them, for reset terms to move."""
        (home, turn), chosen = self._mocap_home, mask[:, None, None]
        pos, quat = self.sim.mocap_pos, self.sim.mocap_quat
        torch.where(chosen, home + self.env_origins.unsqueeze(1), pos, out=pos)
        torch.where(chosen, turn, quat, out=quat)

    def _observe(self) -> None:
        if self.staged_wrenches.staged:
            self.staged_wrenches.apply()
        self.obs_buf = self._sample_observations()
        self.nan_guard.clean(self.obs_buf)

    def _camera(self) -> int:
        """Return the model's first camera but those of sensors, or -1 for the free camera."""
        model = self.sim.model
        names = [model.camera(index).name for index in range(model.ncam)]
        shown = [index for index, name in enumerate(names) if name not in self.sensor_cameras]
        return shown[0] if shown else -1


def inset(picture: np.ndarray, images: Sequence[np.ndarray]) -> None:
    """Draw images into a picture's lower right corner, side by side, enlarged by whole numbers."""
    edge = picture.shape[1] - MARGIN
    for image in images:
        height, width = image.shape[:2]
        factor = max(1, min(picture.shape[0] // 3 // height, picture.shape[1] // 3 // width))
        shown = image.repeat(factor, axis=0).repeat(factor, axis=1)
        bottom, left = picture.shape[0] - MARGIN, edge - shown.shape[1]
        if left < 0 or shown.shape[0] > bottom:
            return  # no room is left
        picture[bottom - shown.shape[0] : bottom, left:edge] = shown
        edge = left - MARGIN


class RecordedStep(Recording):
    """Makes the steps of an environment by graphs of its :meth:`~VectorEnv.transition`."""

    def __init__(
        self,
        env: VectorEnv,
        new_graphs: NewGraphs = cuda_graphs,
        *,
        is_compiled: bool = False,
        **options: Any,
    ) -> None:
        """Record from the next step on.

        Args:
            env: The environment.
            new_graphs: See :data:`NewGraphs`.
            is_compiled: Whether the graphs are compiled, so that they round differently.
            options: Those of :class:`Recording`.
        """
        super().__init__(self._transition, new_graphs, **options)
        self._env, self._is_compiled = env, is_compiled
        self._actions = env.actions.clone()
        self._is_outdated = False
        env.random.keep_offset()

    def record_anew(self) -> None:
        """Record again at the next step, because it will read other values."""
        self._is_outdated = True

    def step(self) -> Step:
        """Return the result of :meth:`~VectorEnv.transition`."""
        env = self._env
        if self._is_outdated:
            self.forget()
            self._is_outdated = False
        with _branches(self._is_compiled):
            if self._is_compiled and not self.is_made:
                self._record_ahead()
            obs, reward, terminated, truncated, info = self._run()
        env.obs_buf, env.reward_buf = obs, reward
        if env.device.type == "cpu" and not info["num_ended"]:
            del info["final_obs"], info["_final_obs"]
        return obs, reward, terminated, truncated, info

    def _transition(self) -> Step:
        # A clone, so that a task that keeps env.actions has this step's, not the next one's.
        self._env.actions = self._actions.clone()
        return self._env.transition()

    def _run(self) -> Step:
        env = self._env
        self._actions.copy_(env.actions)
        env.sim.num_changes += 1  # recorded steps count no changes
        if self.is_made:
            _, env.reward_buf, *_ = self.written  # as curricula find it
        step: Step = self.run()
        return step

    def _record_ahead(self) -> None:
        """Record with steps that are undone, so that each step that counts is a compiled one.

        A compiled step rounds differently, so a resumed run would not repeat the original.

        Raises:
            SimulationError: If the step cannot be compiled.
        """
        env = self._env
        state, log, generator = env.state(), env.latest_log.values, torch.get_rng_state()
        others = {name: one for name, one in vars(env).items() if not isinstance(one, torch.Tensor)}
        env.is_rehearsing = True
        with Undo() as undo:
            while not self.is_made:
                env.random.advance()
                env.common_step_counter += 1
                self._run()
        env.recording, env.is_rehearsing = None, False
        env.set_state(state)  # without forgetting the recording
        undo.restore()
        vars(env).update(others)
        env.sim.set_state(state["sim"])  # NumPy's part, which undo does not know
        torch.set_rng_state(generator)
        env.latest_log.go_back(log)


@contextmanager
def _branches(is_compiled: bool) -> Iterator[None]:
    """Run a compiled step's operations in each step.

    They are those of a GPU, without inference mode, which hides some from watch.
    """
    if not is_compiled:
        yield
        return
    with as_on_a_gpu(), torch.inference_mode(False), torch.no_grad():
        yield
