"""The base of all batches of environments, with or without physics: a ``VectorEnv`` over tensors.

It has the counters, randomness, resets in the same step, logs, final observations, spaces, and the
state for a resume; :class:`envlab.envs.VectorEnv` adds physics.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envlab.config import check_ranges
from envlab.distributed.context import DistributedContext
from envlab.distributed.readings import Readings
from envlab.envs.checks import (
    LEAST_BYTES,
    base_seed,
    check_memory,
    check_result,
    positive,
    registered_cfg,
    space_of,
    unbounded,
)
from envlab.envs.episodes import LatestLog, Log
from envlab.envs.masks import clear
from envlab.envs.nan_guard import FailureCounter
from envlab.envs.random import EnvRandom
from envlab.errors import ConfigurationError
from envlab.sim.host import on_host
from envlab.state import State, restore, save

try:
    from gymnasium.vector import AutoresetMode
except (
    ImportError
):  # Gymnasium 0.29, which CleanRL needs: gymnasium.make("numpy/...") works with it
    AutoresetMode = Enum(  # type: ignore[misc, assignment, no-redef]
        "AutoresetMode", {"NEXT_STEP": "NextStep", "SAME_STEP": "SameStep", "DISABLED": "Disabled"}
    )

if TYPE_CHECKING:
    from envlab.envs.action_use import ActionUse
    from envlab.envs.discrete import DiscreteCfg
    from envlab.envs.episodes import EpisodeMeasures

Observations = dict[str, Any]
"""By group: vectors ``(num_envs, dim)``, images ``(num_envs, height, width, channels)``, or where
a group does not join its terms, a dictionary of them."""
Step = tuple[Observations, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]
"""Observations, rewards, terminated, truncated and info."""


class StepMaker(Protocol):
    """Makes steps as :meth:`BatchedEnv.transition` does, such as by graphs of it."""

    def step(self) -> Step:
        """Make a step with the environment's actions."""

    def record_anew(self) -> None:
        """Record again at the next step, because it will read other values."""


class _IsaacLabInterface:
    """A base by whose module skrl's ``wrap_env()`` recognises how to treat an environment."""


_IsaacLabInterface.__module__ = "isaaclab.envs"


# gymnasium.make() refuses what is not a gymnasium.Env, which a gymnasium.vector.VectorEnv is not.
class BatchedEnv(gymnasium.vector.VectorEnv, gymnasium.Env):  # type: ignore[misc]
    """``num_envs`` environments that are stepped together and reset themselves in the same step.

    :meth:`step` and :meth:`reset` are here, and :meth:`transition` has the order of a step;
    subclasses define their parts in the methods with a leading underscore.

    Attributes:
        cfg: The configuration.
        context: Where this process is.
        device: Device of all tensors.
        num_envs: Environments of this process.
        random: The environments' random streams.
        common_step_counter: Steps that this environment has made in all.
        actions: The last actions, ``(num_envs, num_actions)``.
        obs_buf: The latest observations.
        reward_buf: The latest rewards.
        log_dir: Where to save the states of failed environments; null: the temporary directory.
    """

    metadata = {
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
    }
    STATE: ClassVar[State] = State(
        per_env=("_episode_length",), shared=("common_step_counter",), parts=("random",)
    )
    cfg: Any
    obs_buf: Observations
    reward_buf: torch.Tensor
    autoreset_mode = AutoresetMode.SAME_STEP
    """As in ``metadata``; Gymnasium's own vector environments have it, and TorchRL asks for it."""
    resumes_exactly = True
    """Whether :meth:`set_state` restores everything about the environment."""
    repeats_exactly = True
    """Whether equal states and actions lead to equal bits."""
    _changes: tuple[Callable[[], None], ...] = ()
    """What to change before the next step, recorded or not."""
    measures: EpisodeMeasures | None = None
    """Sums up ``info["episodes"]``, where it exists."""
    place = ""
    """Where episodes take place, such as ``houses of val``, for those who read their measures."""
    success: torch.Tensor | None = None
    """How successful each episode is so far, 0 to 1, float32 ``(num_envs,)``; None: unknown."""
    action_use: ActionUse | None = None
    """Counts actions at a bound that an agent's configuration sets; made by those who train."""
    recording: StepMaker | None = None
    """Makes steps instead of :meth:`transition`, by graphs of it, if they are recorded."""
    _is_compiled = False
    """Whether steps are compiled, and thus run the same operations each time, as on a GPU."""
    is_resetting = False
    """Whether observations are those of :meth:`reset`, in which no time passes."""
    _has_agents = False
    """Whether :meth:`step` returns dictionaries by agent."""
    _options: DiscreteCfg | None = None
    """What actions choose among, once the spaces are made; None where they are numbers."""
    _stepping: AbstractContextManager[Any] = nullcontext()
    """Entered for each step."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_task_state" in vars(cls):
            raise ConfigurationError(
                f"{cls.__name__} has _task_state(), which envlab no longer calls. Declare what a "
                'resume needs: STATE = State(per_env=("targets",)), see docs/environments.md.'
            )
        cls.__bases__ = (*cls.__bases__, _IsaacLabInterface)  # skrl looks at direct bases only

    def __init__(
        self,
        cfg: Any = None,
        *,
        context: DistributedContext | None = None,
        num_envs: int | None = None,
        device: str | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
        env_cfg_entry_point: str | None = None,
        **registry_kwargs: Any,
    ) -> None:
        """Build the environments and reset them.

        Args:
            cfg: The configuration; None: the one at ``env_cfg_entry_point``.
            context: Where this process is; None: a lone process on ``device``.
            num_envs: Environments of this process; None: ``cfg.scene.num_envs``.
            device: ``cpu``, ``cuda`` or ``cuda:<index>`` where there is no ``context``.
            seed: Base seed; None: ``cfg.seed``, or a random one.
            render_mode: None or ``rgb_array``.
            env_cfg_entry_point: ``module:Class`` of the configuration, from the registry.
            registry_kwargs: The registry's other entries, which are not needed here.

        Raises:
            ConfigurationError: For an invalid value.
        """
        self.cfg = cfg = registered_cfg(cfg, env_cfg_entry_point, registry_kwargs)
        check_ranges(cfg, "env")
        self.context = context or DistributedContext.single(None if device is None else str(device))
        self.num_envs = num_envs = positive(
            "env.scene.num_envs", cfg.scene.num_envs if num_envs is None else num_envs
        )
        self.render_mode = render_mode
        self.log_dir: Path | None = None
        check_memory(num_envs, LEAST_BYTES, self.context)
        self.device = self._find_device()
        seed = seed if seed is not None else cfg.seed
        if seed is None:
            seed = self.context.broadcast(secrets.randbits(31))
        self.random = EnvRandom(
            seed,
            self.context.rank * num_envs,
            num_envs,
            self.device,
            draws_ahead=self._is_compiled or None,
        )
        self.common_step_counter = 0
        self.latest_log = LatestLog()
        self._episode_length = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._failures = FailureCounter(
            num_envs,
            cfg.nan_guard.max_bad_share,
            self.device,
            self._explain_failures,
            self._name_failing_terms,
        )
        self._build()

    @property
    def env_ids(self) -> torch.Tensor:
        """Global indices of the environments, int64 ``(num_envs,)``."""
        return self.random.env_ids

    @property
    def step_dt(self) -> float:
        """Environment step, in seconds."""
        raise NotImplementedError

    @property
    def max_episode_length(self) -> int:
        """Time limit of an episode, in steps; 0: none."""
        raise NotImplementedError

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset, int64 ``(num_envs,)``; time limits follow what is set."""
        return self._episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self._episode_length.copy_(values)

    def reset(  # type: ignore[override]
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
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
            seed = base_seed(seed)
            gymnasium.Env.reset(self, seed=seed)  # np_random, which is unused here
            self._restart(seed)
        self.random.advance()
        mask = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        if options and "reset_mask" in options:
            mask = torch.as_tensor(options["reset_mask"], dtype=torch.bool, device=self.device)
            if mask.shape != (self.num_envs,):
                raise ValueError(
                    f"reset_mask has shape {tuple(mask.shape)}, but must be ({self.num_envs},)."
                )
        count = mask.sum()
        log = self._reset_masked(mask, count)
        self.latest_log.keep(log, 1 if on_host(self.device) else count)
        self.is_resetting = True
        try:
            self._observe()
        finally:
            self.is_resetting = False
        return self.obs_buf, {}

    def step(self, actions: Any) -> Any:
        """Apply actions for one environment step and reset the environments that end.

        Args:
            actions: ``(num_envs, num_actions)``.

        Returns:
            Observations by group, float32 ``(num_envs, ...)``, of the new episode where one ended;
            rewards, float32 ``(num_envs,)``; terminated and truncated, bool ``(num_envs,)``; and
            info. In every step, info holds ``num_ended``, how many episodes ended, and ``log``,
            means over those that ended last, in this step or before (as in Isaac Lab; zeros until
            an episode has ended): numbers on a CPU, 0-d tensors on a GPU. Where episodes ended, it
            also holds ``final_obs``, observations as above but of the states in which they ended
            (valid in the rows of ``_final_obs``); on a GPU always, because a GPU is not asked
            whether an episode ended. Of tasks with a goal, it holds ``success`` of the episodes so
            far, also of those that ended: see :attr:`success`.

        Raises:
            ValueError: If ``actions`` has another shape.
            SimulationError: If too many environments fail at once, see :class:`NanGuardCfg`.
        """
        with self._stepping:
            if self._changes:
                changes, self._changes = self._changes, ()
                for change in changes:
                    change()
            self.actions = self._check_actions(actions)
            if self.action_use is not None:
                self.action_use.add(self.actions)
            self.random.advance()
            self.common_step_counter += 1
            self._failures.num_steps += 1
            recording = self.recording
            step = self.transition() if recording is None else recording.step()
            return self._shown(step) if self._has_agents else step

    def transition(self) -> Step:
        """Make a step with :attr:`actions`. These lines are the order of a step.

        Each part is a method below, for subclasses to define; none of them calls this. A GPU runs
        the same operations in every step, and is never asked whether an episode ended.
        """
        if self.random.ahead is not None:
            self.random.draw_ahead()

        self._apply_actions(self.actions)
        self._advance()  # physics
        self._episode_length += 1

        self._measure()  # sensors, success
        terminated, time_outs = self._get_dones()
        reward = self._get_rewards()
        if self.common_step_counter == 1:
            self._check_results(terminated, time_outs, reward)
        if isinstance(reward, dict):  # by agent: a row for each
            terminated, time_outs, reward = self._rows(terminated, time_outs, reward)
        if self.cfg.is_finite_horizon:  # time limits are part of the task
            terminated, time_outs = terminated | time_outs, torch.zeros_like(time_outs)
        terminated, reward = self._end_failed(terminated, reward)
        truncated = time_outs > terminated  # and not terminated
        ended = terminated | truncated
        if ended.dim() > 1:
            ended = ended.all(dim=0)
        self.reward_buf = reward

        self._before_resets(ended)  # errors to commands, curricula
        num_ended = self._count(ended)
        info: dict[str, Any] = {"num_ended": num_ended}
        if self.success is not None:
            info["success"] = self.success.clone()
        if isinstance(num_ended, torch.Tensor) or num_ended:
            info["final_obs"], info["_final_obs"] = self._final_observations(), ended
            self.latest_log.keep(self._reset_ended(ended, num_ended), num_ended)
        info["log"] = dict(self.latest_log.values)  # a copy: rsl_rl's logger writes into it

        self._after_resets()  # commands, interval events
        self._observe()
        self._tell(info)
        return self.obs_buf, reward, terminated, truncated, info

    def action_names(self) -> list[str]:
        """Return what each number of an action moves, or its place where only code knows."""
        return [f"action {place}" for place in range(self._num_actions())]

    def joint_positions(self) -> dict[str, torch.Tensor]:
        """Return the positions of joints by name, ``(num_envs,)`` each; empty without physics."""
        return {}

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return a picture of environment 0, uint8 ``(height, width, 3)``.

        It is None without a ``render_mode``. Gymnasium's vector environments return a tuple with a
        picture of each environment, which is useless for thousands.
        """
        raise NotImplementedError

    def ask_health(self, readings: Readings) -> None:
        """Have what :meth:`check_health` needs read along with others, before it."""
        self._failures.ask(readings)
        if self.action_use is not None:
            self.action_use.ask(readings)

    def check_health(self) -> None:
        """Report environments that failed since the last call, and actions at their bound.

        It waits for the GPU, unless :meth:`ask_health` came before.

        Raises:
            SimulationError: If more than ``env.nan_guard.max_bad_share`` of the environments failed
                per step, on average.
        """
        self._failures.report()
        if self.action_use is not None:
            self.action_use.check()

    def state(self) -> dict[str, Any]:
        """Return copies of everything that the next step depends on, for an exact resume."""
        return save(self)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        restore(self, state, self.device)

    def on_restore(self) -> None:
        """Forget the failures before; see :mod:`envlab.state`."""
        self._failures.restart()

    # For subclasses to define ---------------------------------------------------------------------

    def _find_device(self) -> torch.device:
        """Return the device of all tensors. Physics, which may choose another, is created here."""
        return self.context.device

    def _build(self) -> None:
        """Create whatever steps the environments, then the spaces, and reset them. Called once."""
        raise NotImplementedError

    def _explain_failures(self) -> str:
        """Save the states of too many failed environments; return a hint with their path."""
        raise NotImplementedError

    def _name_failing_terms(self) -> str:
        """Return a sentence on which terms of the task are not finite, if they are known."""
        return ""

    def _num_actions(self) -> int:
        """Return the size of an action, or the number of choices."""
        raise NotImplementedError

    def _choices(self) -> DiscreteCfg | None:
        """Return what actions choose among; None where they are numbers."""
        return None

    # The parts of a step, in its order.

    def _apply_actions(self, actions: torch.Tensor) -> None:
        """Act, or write controls, with ``actions``, ``(num_envs, num_actions)``."""
        raise NotImplementedError

    def _advance(self) -> None:
        """Simulate what follows from the actions, without a reset."""

    def _measure(self) -> None:
        """Measure what ends, rewards and observations of a step have in common."""

    def _get_dones(self) -> tuple[Any, Any]:
        """Return terminated and time-outs, both bool ``(num_envs,)``; several agents': by agent."""
        raise NotImplementedError

    def _get_rewards(self) -> Any:
        """Return rewards, ``(num_envs,)``, before any reset; several agents': by agent."""
        raise NotImplementedError

    def _end_failed(
        self, terminated: torch.Tensor, reward: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both, with the episodes of environments that broke down ended."""
        return terminated, reward

    def _before_resets(self, mask: torch.Tensor) -> None:
        """Do the work of every step that precedes the reset of the environments of ``mask``.

        All ranks call it in the same steps, whether or not any of their episodes ends.
        """

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Reset environments.

        Args:
            mask: Which, bool ``(num_envs,)``.
            count: Their number; a plain number on a CPU, else 0-d.

        Returns:
            The log of the episodes that end.
        """
        raise NotImplementedError

    def _reset_ended(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Reset the environments that ended in a step; see :meth:`_reset_masked`."""
        return self._reset_masked(mask, count)

    def _after_resets(self) -> None:
        """Do the work that follows the resets of a step: commands, interval events."""

    def _observe(self) -> None:
        """Set :attr:`obs_buf`, after a step or a reset."""
        self.obs_buf = self._sample_observations()

    def _tell(self, info: dict[str, Any]) -> None:
        """Add the task's own values to a step's info."""

    def _get_observations(self) -> Observations:
        """Return ``{"policy": (num_envs, ...), ...}`` of the state, without side effects."""
        raise NotImplementedError

    def _sample_observations(self) -> Observations:
        """Return the observations that the policy sees: with noise, where the task has some."""
        return self._get_observations()

    def _final_observations(self) -> Observations:
        """Return the observations of the states in which episodes ended, without noise."""
        return self._get_observations()

    # --------------------------------------------------------------------------------------------

    def _restart(self, seed: int) -> None:
        """Restart all that is random from a base seed."""
        self.random.seed(seed)

    def _count(self, ended: torch.Tensor) -> torch.Tensor | int:
        """Return how many environments ended; on a GPU a 0-d tensor, so as not to wait for it."""
        return int(np.count_nonzero(ended.numpy())) if on_host(ended.device) else ended.sum()

    def _check_results(self, terminated: Any, time_outs: Any, reward: Any) -> None:
        """Refuse a task's results of another shape or type, in the first step."""
        check_result("terminated", terminated, torch.bool, self.num_envs)
        check_result("time-outs", time_outs, torch.bool, self.num_envs)
        check_result("rewards", reward, torch.float32, self.num_envs)

    def _rows(self, *values: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Return values by agent, each ``(num_envs,)``, as ``(num_agents, num_envs)``."""
        raise NotImplementedError

    def _shown(self, step: Step) -> Any:
        """Return a step of several agents by agent."""
        raise NotImplementedError

    def _save_failure(self, states: Mapping[str, Any]) -> Path:
        """Save the states of failed environments and the steps before them; return where."""
        known = {
            "actions": self.actions.cpu(),
            "env_ids": self.env_ids.cpu(),
            "step": self.common_step_counter,
        }
        # A new file with an unguessable name, because the temporary directory is world-writable:
        # writing through a link under a known name would overwrite its target.
        descriptor, path = tempfile.mkstemp(
            prefix=f"nan_state_rank{self.context.rank}_step{self.common_step_counter}_",
            suffix=".pt",
            dir=self.log_dir,
        )
        with open(descriptor, "wb") as file:
            torch.save({**states, **known}, file)
        return Path(path)

    def _make_spaces(self) -> None:
        self._options = self._choices()
        if self._num_actions() < 1:
            raise ConfigurationError(
                f"The task has {self._num_actions()} actions, but needs at least one. Keep an "
                "action term, or set action_space."
            )
        dtype = torch.float32 if self._options is None else torch.int64
        self.actions = torch.zeros(
            self.num_envs, self._num_actions(), dtype=dtype, device=self.device
        )
        self.single_observation_space = self._make_observation_space()
        self.single_action_space = self._make_action_space()
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _make_observation_space(self) -> spaces.Space:
        return space_of(self._get_observations())

    def _make_action_space(self) -> spaces.Space:
        choices = self._options
        return unbounded((self._num_actions(),)) if choices is None else choices.make_space()

    def _check_actions(self, actions: Any) -> torch.Tensor:
        choices = self._options
        if choices is not None:
            actions = choices.columns(torch.as_tensor(actions, device=self.device))
        actions = torch.as_tensor(actions, dtype=self.actions.dtype, device=self.device)
        if actions.shape != self.actions.shape:
            raise ValueError(
                f"actions have shape {tuple(actions.shape)}, but must be "
                f"{tuple(self.actions.shape)}: (num_envs, num_actions)."
            )
        if choices is not None and on_host(self.device):
            choices.check_range(actions)
        return actions.detach()  # physics has no gradient, and a graph would grow without end

    def _clear_lengths(self, mask: torch.Tensor) -> None:
        """Restart the step counts of the environments of ``mask`` for a new episode."""
        clear(self._episode_length, mask)
