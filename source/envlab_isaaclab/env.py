"""A task of Isaac Lab's as a batch of envlab's environments."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from gymnasium import spaces

from envlab.envs.batched_env import BatchedEnv
from envlab.envs.episodes import Log
from envlab.errors import ConfigurationError, EnvlabError
from envlab.registry import load_entry_point
from envlab.state import State
from envlab_bridge.errors import own_line
from envlab_isaaclab.context import SimulationContext
from envlab_isaaclab.memory import Memory
from envlab_isaaclab.refusals import forget, sentence_of
from envlab_isaaclab.settings import apply

logger = logging.getLogger(f"envlab.{__name__}")

_KINDS = "isaaclab.envs:ManagerBasedRLEnv", "isaaclab.envs:DirectRLEnv"


class IsaacLabEnv(BatchedEnv):
    """``num_envs`` environments of Isaac Lab's ``ManagerBasedRLEnv`` or ``DirectRLEnv``.

    The step is Isaac Lab's own. Three things differ from envlab's environments. Random numbers are
    the process's: those of two processes are not those of one with as many environments. Isaac Lab
    computes no observations of the states in which episodes end; those before the last step stand
    for them, from which its rsl_rl also estimates what a time limit cuts off. A process has one
    simulation.
    """

    STATE: ClassVar[State] = State(of_rank=("obs_buf",), parts=("memory",))

    def __init__(
        self,
        cfg: Any = None,
        *,
        env_cfg_entry_point: Any = None,
        isaaclab_entry_point: Any = None,
        **keywords: Any,
    ) -> None:
        """Make the environments, and reset them.

        Args:
            cfg: The settings (:mod:`envlab_isaaclab.settings`); None: the task's own.
            env_cfg_entry_point: The task's :class:`~envlab_isaaclab.tasks.TaskSettings`.
            isaaclab_entry_point: The task's own environment class, or ``module:Class``.
            keywords: See :class:`BatchedEnv`.

        Raises:
            ConfigurationError: If the configuration is not valid, or the task is of several agents.
        """
        self._settings, self._kind = env_cfg_entry_point, isaaclab_entry_point
        super().__init__(cfg, env_cfg_entry_point=env_cfg_entry_point, **keywords)

    @property
    def isaac(self) -> Any:
        """Isaac Lab's own environment."""
        return self._env

    @property
    def step_dt(self) -> float:
        return float(self._env.step_dt)

    @property
    def max_episode_length(self) -> int:
        return int(self._env.max_episode_length)

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since the last reset, int64 ``(num_envs,)``; time limits follow what is set."""
        return self._episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self._episode_length.copy_(values)
        self._env.episode_length_buf.copy_(values)

    def on_restore(self) -> None:
        super().on_restore()
        self._episode_length.copy_(self._env.episode_length_buf)

    def close(self, **kwargs: Any) -> None:
        """Close Isaac Lab's environment, and end its simulation."""
        self._env.close()
        SimulationContext.clear_instance()

    def _build(self) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):  # tables of all managers, on each rank
            self._env = self._make()
            self._last: Any = (self._env.reset()[0],)
        logger.debug("%s", printed.getvalue().strip())
        self.memory = Memory(self._env, self._step_once, self.reset)
        self._make_spaces()
        self.reset()

    def _make(self) -> Any:
        """Return Isaac Lab's environment.

        Raises:
            ConfigurationError: If the task is of several agents, or cannot be made.
        """
        cfg = self._settings.made()
        apply(cfg, self.cfg)
        cfg.scene.num_envs = self.num_envs
        cfg.seed = (self.random.base_seed + self.context.rank) % 2**31
        cfg.sim.device = str(self.device)
        try:
            kind = load_entry_point(self._kind)
            if not issubclass(kind, tuple(map(load_entry_point, _KINDS))):
                raise ConfigurationError(
                    f"The task's environment is {kind.__name__}, but must be Isaac Lab's "
                    "ManagerBasedRLEnv or DirectRLEnv, or derive from one; several agents train by "
                    "the project's own script."
                )
            return kind(cfg=cfg)
        except EnvlabError:
            sys.unraisablehook = forget
            raise
        except Exception as error:  # of the project's code, in any form
            sys.unraisablehook = forget
            logger.debug("Making the task failed.", exc_info=True)
            why = f"{type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"
            raise ConfigurationError(
                sentence_of(error)
                or f"Isaac Lab cannot make the task: {own_line(error)}: {why}. Correct the "
                "project, or the overrides of env."
            ) from error

    def _step_once(self) -> None:
        """Make a step without an action, so that everything exists that steps create."""
        self._env.step(torch.zeros_like(self.actions))

    def _explain_failures(self) -> str:
        return "Look at the task's observations and rewards."

    def _num_actions(self) -> int:
        space = self._env.single_action_space
        if not isinstance(space, spaces.Box):
            raise ConfigurationError(
                f"The task's actions are {space}, but must be numbers. Take another task."
            )
        return int(spaces.flatdim(space))

    def _apply_actions(self, actions: torch.Tensor) -> None:
        self._last = self._env.step(actions.clone())

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._last[2].clone(), self._last[3].clone()

    def _get_rewards(self) -> torch.Tensor:
        return self._last[1].clone()

    def _reset_ended(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        """Return the log of the episodes that ended, whose environments have reset themselves."""
        self._clear_lengths(mask)
        return _numbers(self._last[4].get("log", {}))

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        if not bool(mask.all()):
            raise ConfigurationError(
                "Isaac Lab's environments are reset all at once, or by themselves."
            )
        self._last = self._env.reset()
        self._clear_lengths(mask)
        return {}

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        self._env.seed((seed + self.context.rank) % 2**31)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {name: _copied(values) for name, values in self._last[0].items()}

    def _final_observations(self) -> dict[str, torch.Tensor]:
        return self.obs_buf


def _copied(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: _copied(one) for name, one in values.items()}
    return values.clone()


def _numbers(log: Mapping[str, Any]) -> Log:
    """Return the values of a log that are numbers."""
    return {
        name: value
        for name, value in log.items()
        if isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.dim() == 0)
    }
