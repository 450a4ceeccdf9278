"""The vectorised environment that every task is: a Gymnasium ``VectorEnv`` over torch tensors."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from envlab.distributed.context import DistributedContext
from envlab.envs.actuator_delays import ActuatorDelays, simulation_with_delays
from envlab.envs.cfg import EnvCfg
from envlab.envs.checks import base_seed, check_result, positive, refuse_unknown, unbounded
from envlab.envs.masks import clear, kept_rows
from envlab.envs.nan_guard import NanGuard
from envlab.envs.random import EnvRandom
from envlab.envs.scene import build_model
from envlab.envs.terrain import Terrain
from envlab.envs.wrenches import StagedWrenches
from envlab.errors import ConfigurationError
from envlab.sim.simulation import Simulation, create_simulation
from envlab.sim.threads import SMALL_BATCH, OneThread
from envlab.task import load_entry_point


class VectorEnv(gymnasium.vector.VectorEnv, gymnasium.Env):  # type: ignore[misc]
    """``num_envs`` environments that are stepped together and reset themselves in the same step.

    Subclasses say what happens at each point of :meth:`step` by the methods with a leading
    underscore; use :class:`envlab.envs.DirectEnv`, :class:`envlab.envs.ManagerEnv` or, for several
    agents, :class:`envlab.envs.DirectMarlEnv`. It is a ``gymnasium.Env`` too, so that
    ``gymnasium.make`` returns it.

    Attributes:
        cfg: The task's configuration.
        context: Where this process is.
        sim: The physics.
        device: Device of all tensors.
        num_envs: Environments of this process.
        env_ids: Their global indices, int64 ``(num_envs,)``.
        random: The environments' random streams.
        episode_length_buf: Steps since the last reset, int64 ``(num_envs,)``.
        common_step_counter: Steps that this environment has made in all.
        env_origins: Where each environment is in the shared world, in m, ``(num_envs, 3)``; zero
            but on generated terrain.
        terrain: Generated ground, with the level of each environment; None on a plane.
        staged_wrenches: External wrenches that events ask for, applied after the resets.
        constants: Tensors that terms derive from the model once and keep, by a key of theirs.
        reset_qpos: Positions that a reset will write, ``(num_envs, nq)``; reset terms edit it.
        reset_qvel: Velocities that a reset will write, ``(num_envs, nv)``.
        actions: The last actions, ``(num_envs, num_actions)``.
        log_dir: Where to save the states of failed environments; null: the temporary directory.
    """

    metadata = {
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
    }
    obs_buf: dict[str, torch.Tensor]
    """The latest observations by group: vectors ``(num_envs, dim)``, or images ``(num_envs, height,
    width, channels)``."""
    resumes_exactly = True
    """Whether :meth:`set_state` brings back all that :meth:`state` saw."""
    _renderer: mujoco.Renderer | None = None

    def __init__(
        self,
        cfg: EnvCfg | None = None,
        *,
        context: DistributedContext | None = None,
        num_envs: int | None = None,
        device: str | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
        env_cfg_entry_point: str | None = None,
        **registry_kwargs: Any,
    ) -> None:
        """Build the simulation and reset all environments.

        Args:
            cfg: The configuration; None: the one at ``env_cfg_entry_point``.
            context: Where this process is; None: a lone process on ``device``.
            num_envs: Overrides ``cfg.scene.num_envs``.
            device: ``cpu``, ``cuda`` or ``cuda:<index>`` where there is no ``context``.
            seed: Base seed; None: ``cfg.seed``, or a random one.
            render_mode: None or ``rgb_array``.
            env_cfg_entry_point: ``module:Class`` of the configuration, from the registry.
            registry_kwargs: The registry's other entries, which an environment does not need.

        Raises:
            ConfigurationError: For a value that makes no environment.
        """
        refuse_unknown(registry_kwargs)
        if cfg is None:
            if env_cfg_entry_point is None:
                raise ConfigurationError("An environment needs a configuration; pass cfg=...")
            cfg = load_entry_point(env_cfg_entry_point)()
        self.cfg = cfg
        self.render_mode = render_mode
        self.context = context or DistributedContext.single(None if device is None else str(device))
        self.num_envs = positive(
            "env.scene.num_envs", cfg.scene.num_envs if num_envs is None else num_envs
        )
        positive("env.decimation", cfg.decimation)
        positive("env.sim.dt", cfg.sim.dt)
        positive("env.episode_length_s", cfg.episode_length_s)
        self.log_dir: Path | None = None
        self.sim: Simulation = create_simulation(
            simulation_with_delays(cfg.sim, cfg.scene.actuators),
            build_model(cfg.scene, cfg.sim.dt),
            self.num_envs,
            decimation=cfg.decimation,
            device=self.context.device,
            num_threads=self.context.num_threads,
        )
        self.device = self.sim.device
        seed = seed if seed is not None else cfg.seed
        if seed is None:
            seed = self.context.broadcast(secrets.randbits(31))
        first_env = self.context.rank * self.num_envs
        self.random = EnvRandom(seed, first_env, self.num_envs, self.device)
        self.env_ids = self.random.env_ids
        self.common_step_counter = 0
        self._episode_length = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self.terrain: Terrain | None = None
        self._allocate_states()
        self._setup()
        self._make_spaces()
        self.reset()
        size = sum(values.numel() for values in self.obs_buf.values())
        self._threads = OneThread(self.device.type == "cpu" and size <= SMALL_BATCH)

    @property
    def physics_dt(self) -> float:
        """Physics time step, in seconds."""
        return self.sim.physics_dt

    @property
    def step_dt(self) -> float:
        """Environment step, in seconds."""
        return self.sim.step_dt

    @property
    def max_episode_length(self) -> int:
        """Time limit of an episode, in steps."""
        return self.cfg.max_episode_length

    @property
    def last_qpos(self) -> torch.Tensor:
        """Positions before this step's physics, ``(num_envs, nq)``, for rewards of progress."""
        return self.nan_guard.last_qpos

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset, int64 ``(num_envs,)``."""
        return self._episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self._episode_length.copy_(values)

    def reset(  # type: ignore[override]
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]``, bool ``(num_envs,)``.

        Args:
            seed: Restarts the random streams of all environments. One base seed makes all of them
                different; a list, as Gymnasium allows, must hold one seed for all.
            options: See above.

        Returns:
            Observations by group, each ``(num_envs, ...)``, and an empty info.

        Raises:
            ValueError: If ``reset_mask`` has another shape.
        """
        if seed is not None:
            self.random.seed(base_seed(seed))
            if self.terrain is not None:
                self.terrain.restart()
        self.random.advance()
        mask = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        if options and "reset_mask" in options:
            mask = torch.as_tensor(options["reset_mask"], dtype=torch.bool, device=self.device)
            if mask.shape != (self.num_envs,):
                raise ValueError(
                    f"reset_mask has shape {tuple(mask.shape)}, but must be ({self.num_envs},)."
                )
        self._reset_masked(mask, mask.sum())
        self._observe()
        return self.obs_buf, {}

    def step(  # type: ignore[override]
        self, actions: torch.Tensor | np.ndarray
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Apply actions for one environment step and reset the environments that end.

        Args:
            actions: ``(num_envs, num_actions)``.

        Returns:
            Observations by group, float32 ``(num_envs, ...)``, of the new episode where one ended;
            rewards, float32 ``(num_envs,)``; terminated and truncated, bool ``(num_envs,)``; and
            info. Where episodes ended, info holds ``final_obs``, observations as above but of the
            states in which episodes ended (valid in the rows of ``_final_obs``), ``log``, means
            over the ended episodes, and ``num_ended``, how many these are: numbers on a CPU, 0-d
            tensors on a GPU, where info always holds them, because a GPU is not asked whether an
            episode ended.

        Raises:
            ValueError: If ``actions`` has another shape.
            SimulationError: If too many environments fail at once, see :class:`NanGuardCfg`.
        """
        with self._threads:
            return self._step(actions)

    def _step(
        self, actions: torch.Tensor | np.ndarray
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self.actions = self._check_actions(actions)
        self.random.advance()
        self.common_step_counter += 1
        self.nan_guard.remember()
        self._apply_actions(self.actions)
        self.sim.step()
        self._episode_length += 1

        terminated, time_outs, reward = self._judge()
        if self.cfg.is_finite_horizon:
            terminated, time_outs = terminated | time_outs, torch.zeros_like(time_outs)
        terminated, reward = self.nan_guard.end_failed(terminated, reward)
        truncated = time_outs > terminated  # and not terminated
        ended = terminated | truncated
        if ended.dim() > 1:  # a row per agent
            ended = ended.all(dim=0)
        self._before_resets(ended)

        info: dict[str, Any] = {}
        is_cpu = self.device.type == "cpu"
        num_ended = int(np.count_nonzero(ended.numpy())) if is_cpu else ended.sum()
        if not is_cpu or num_ended:
            info["final_obs"] = self._final_observations()
            info["_final_obs"] = ended
            info["num_ended"] = num_ended
            info["log"] = self._reset_masked(ended, num_ended)
        self._after_resets()
        self.staged_wrenches.apply()
        self._observe()
        return self.obs_buf, reward, terminated, truncated, info

    def nominal(self, name: str) -> torch.Tensor:
        """Return the shared model's own values of a field, float32, as they were compiled."""
        if name not in self._nominal:
            # Kept, because a copy to a GPU in every reset would make the reset wait.
            self._nominal[name] = torch.as_tensor(
                np.asarray(getattr(self.sim.model, name)), dtype=torch.float32, device=self.device
            )
        return self._nominal[name]

    def check_health(self) -> None:
        """Report environments that failed or overflowed since the last call. Waits for the GPU.

        Raises:
            SimulationError: If more than ``env.nan_guard.max_bad_share`` of the environments failed
                per step, on average.
        """
        self.nan_guard.check()

    def state(self) -> dict[str, Any]:
        """Return copies of all that the next step depends on, for an exact resume."""
        return {
            "sim": self.sim.state(),
            "episode_length": self._episode_length.cpu().clone(),
            "common_step_counter": self.common_step_counter,
            "seed": self.random.base_seed,
            "tick": self.random.tick,
            "nan_guard": self.nan_guard.state(),
            "obs": {name: values.cpu().clone() for name, values in self.obs_buf.items()},
            "terrain": None if self.terrain is None else self.terrain.state(),
            "task": self._task_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        self.sim.set_state(state["sim"])
        self._episode_length.copy_(state["episode_length"])
        self.common_step_counter = int(state["common_step_counter"])
        self.random.seed(int(state["seed"]))
        self.random.tick = int(state["tick"])
        self.nan_guard.set_state(state["nan_guard"])
        self.obs_buf = {name: values.to(self.device) for name, values in state["obs"].items()}
        if self.terrain is not None:
            self.terrain.set_state(state["terrain"])
        self._set_task_state(state["task"])

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """Return a picture of environment 0, uint8 ``(height, width, 3)``, in a tuple of one."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            # Environment 0's own model, so that sizes and colours randomised at startup are seen.
            # Poses always are: they come with its data.
            self._renderer = mujoco.Renderer(self.sim.model_of(0), height=360, width=640)
        self._renderer.update_scene(self.sim.data_of(0), camera=self._camera())
        self._add_markers(self._renderer.scene)
        return (self._renderer.render(),)

    def close(self, **kwargs: Any) -> None:
        """Free the renderer and the simulation."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        self.sim.close()

    # What subclasses define ---------------------------------------------------------------------

    def _setup(self) -> None:
        """Prepare the task: called once, when the simulation exists."""

    def _apply_actions(self, actions: torch.Tensor) -> None:
        """Write ``sim.ctrl`` (and wrenches) from ``actions``, ``(num_envs, num_actions)``."""
        raise NotImplementedError

    def _get_dones(self) -> tuple[Any, Any]:
        """Return terminated and time-outs, both bool ``(num_envs,)``; several agents': by agent."""
        raise NotImplementedError

    def _get_rewards(self) -> Any:
        """Return rewards, ``(num_envs,)``, before any reset; several agents': by agent."""
        raise NotImplementedError

    def _get_observations(self) -> dict[str, torch.Tensor]:
        """Return ``{"policy": (num_envs, ...), ...}`` of the state, without side effects."""
        raise NotImplementedError

    def _sample_observations(self) -> dict[str, torch.Tensor]:
        """Return the observations that the policy sees: with noise, where the task has some."""
        return self._get_observations()

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        """Edit ``reset_qpos`` and ``reset_qvel`` and forget what belongs to the ended episodes.

        Isaac Lab's ``_reset_idx``, with a mask in place of indices, which a GPU need not count.

        Args:
            mask: Environments to reset, bool ``(num_envs,)``.
            count: How many these are, at least 1; a number on a CPU, else 0-d.

        Returns:
            What to log: means over the episodes that end, numbers or 0-d.
        """
        return {}

    def _before_resets(self, mask: torch.Tensor) -> None:
        """Run what must happen in every step before the environments of ``mask`` are reset.

        It is called in the same steps on all ranks, whether or not one of their environments ends.
        """

    def _after_resets(self) -> None:
        """Run what follows the resets of a step: commands, interval events."""

    def _add_markers(self, scene: mujoco.MjvScene) -> None:
        """Add what :meth:`render` shows of environment 0 beside its bodies, such as goals."""

    def _num_actions(self) -> int:
        """Return the size of an action."""
        raise NotImplementedError

    def _task_state(self) -> dict[str, Any]:
        """Return what the task itself remembers between steps, as CPU copies."""
        return {}

    def _set_task_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`_task_state` returned."""

    # --------------------------------------------------------------------------------------------

    def _allocate_states(self) -> None:
        model = self.sim.model
        key = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
        qpos = model.qpos0 if key < 0 else model.key_qpos[key]
        row = torch.as_tensor(np.asarray(qpos), dtype=torch.float32, device=self.device)
        self.default_qpos = row.unsqueeze(0)
        # In the backend's own layout, which may be transposed.
        self.reset_qpos = torch.empty_like(self.sim.data.qpos).copy_(self.default_qpos)
        self.reset_qvel = torch.zeros_like(self.sim.data.qvel)
        self.env_origins = torch.zeros(self.num_envs, 3, device=self.device)
        if self.cfg.scene.terrain is not None:
            self.terrain = Terrain(
                self.cfg.scene.terrain, model, self.random, self.context.world_size
            )
            self.env_origins = self.terrain.env_origins
        self.constants: dict[Any, torch.Tensor] = {}
        self._nominal: dict[str, torch.Tensor] = {}
        self.nan_guard = NanGuard(self.sim, self.cfg.nan_guard.max_bad_share, self._save_failure)
        self.staged_wrenches = StagedWrenches(self.sim)
        self._delays = ActuatorDelays(self.cfg.scene.actuators, self.sim, self.random)

    def _make_spaces(self) -> None:
        if self._num_actions() < 1:
            raise ConfigurationError(
                f"The task has {self._num_actions()} actions, but needs at least one. Keep an "
                "action term, or set action_space."
            )
        self.actions = torch.zeros(self.num_envs, self._num_actions(), device=self.device)
        self.single_observation_space = self._make_observation_space()
        self.single_action_space = self._make_action_space()
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _make_observation_space(self) -> spaces.Space:
        groups: dict[str, spaces.Space] = {
            name: unbounded(values.shape[1:]) for name, values in self._get_observations().items()
        }
        return spaces.Dict(groups)

    def _make_action_space(self) -> spaces.Space:
        return unbounded((self._num_actions(),))

    def _check_actions(self, actions: torch.Tensor | np.ndarray) -> torch.Tensor:
        actions = torch.as_tensor(actions, dtype=self.actions.dtype, device=self.device)
        if actions.shape != self.actions.shape:
            raise ValueError(
                f"actions have shape {tuple(actions.shape)}, but must be "
                f"{tuple(self.actions.shape)}: (num_envs, num_actions)."
            )
        return actions

    def _judge(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return terminated, time-outs and rewards of the state that a step led to.

        Each is ``(num_envs,)``, or ``(num_agents, num_envs)`` where there are several agents.
        """
        terminated, time_outs = self._get_dones()
        reward = self._get_rewards()
        if self.common_step_counter == 1:
            check_result("terminated", terminated, torch.bool, self.num_envs)
            check_result("time-outs", time_outs, torch.bool, self.num_envs)
            check_result("rewards", reward, torch.float32, self.num_envs)
        return terminated, time_outs, reward

    def _final_observations(self) -> dict[str, torch.Tensor]:
        """Return the observations of the states in which episodes ended, without noise."""
        return {
            name: torch.nan_to_num(values, posinf=0.0, neginf=0.0)
            for name, values in self._get_observations().items()
        }

    def _reset_masked(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        self.reset_qpos.copy_(self.default_qpos)
        self.reset_qvel.zero_()
        if isinstance(count, torch.Tensor):
            count = count.clamp(min=1)  # a GPU is not asked whether there are any
        with kept_rows(mask):
            log = self._reset_envs(mask, count)
            self._delays.draw(mask)
            self.sim.reset(mask, self.reset_qpos, self.reset_qvel)
            self.staged_wrenches.apply()
            clear(self._episode_length, mask)
            self.nan_guard.forgive(mask)
        return log

    def _observe(self) -> None:
        self.obs_buf = self._sample_observations()
        self.nan_guard.clean(self.obs_buf)

    def _save_failure(self, states: Mapping[str, torch.Tensor]) -> Path:
        """Save the states of failed environments, and what led to them; return where."""
        path = Path(self.log_dir or tempfile.gettempdir()) / (
            f"nan_state_rank{self.context.rank}_step{self.common_step_counter}.pt"
        )
        known = {
            "actions": self.actions.cpu(),
            "env_ids": self.env_ids.cpu(),
            "step": self.common_step_counter,
        }
        torch.save({**states, **known}, path)
        return path

    def _camera(self) -> int:
        """Return the model's first camera, or -1 for the free camera."""
        return 0 if self.sim.model.ncam else -1
