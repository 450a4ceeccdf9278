"""AllenAct's task samplers as environments: ``make_sampler_fn`` and ``*_task_sampler_args``.

AllenAct (0.5.4, ``allenact/base_abstractions/task.py``) has one sampler a process, which hands out
tasks; a task is an episode. Here each is an environment of :mod:`envlab.host`, in this process or
in workers.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from envlab.distributed.context import DistributedContext
from envlab.envs.gym_bridge import GroupedGymEnv, GymEnvCfg
from envlab.errors import ConfigurationError
from envlab_navigation.ddppo.experiment_file import calling

if TYPE_CHECKING:
    from envlab_navigation.ddppo.experiment import ExperimentConfig, Mode


class TaskSamplerEnvs(GroupedGymEnv):
    """A batch of an experiment's samplers; each sensor is a group of observations."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        mode: Mode,
        cfg: GymEnvCfg,
        context: DistributedContext,
        **kwargs: Any,
    ) -> None:
        """Make the samplers.

        Args:
            experiment: Whose ``make_sampler_fn`` makes one, from the arguments for ``mode``.
            mode: What for.
            cfg: Number of samplers, and workers.
            context: The process's context.
            **kwargs: Those of :class:`GymEnv`.

        Raises:
            ConfigurationError: If a sensor observes what no network here takes.
        """
        module = sys.modules[type(experiment).__module__]
        file = Path(str(module.__file__))
        cloudpickle.register_pickle_by_value(module)  # workers cannot import the user's file
        total = cfg.scene.num_envs * context.world_size
        cuda = context.device.index if context.device.type == "cuda" else None

        def make(index: int) -> TaskSamplerEnv:
            arguments = getattr(experiment, f"{mode}_task_sampler_args")(
                process_ind=index,
                total_processes=total,
                devices=None if cuda is None else [cuda],
                seeds=None,  # each reset of all gives a sampler its own
                deterministic_cudnn=False,
            )
            return TaskSamplerEnv(experiment.make_sampler_fn(**arguments))

        def made(index: int, render_mode: str | None = None) -> TaskSamplerEnv:
            return calling(file, "in make_sampler_fn or its arguments", lambda: make(index))

        creator: Any = made
        spec = EnvSpec(id="TaskSampler-v0", entry_point=creator, order_enforce=False)
        super().__init__(spec, cfg, context=context, **kwargs)

    def _build(self) -> None:
        self._maker = replace(self._maker, tells_index=True)
        super()._build()


class TaskSamplerEnv(gymnasium.Env[Any, Any]):
    """One sampler's tasks, one after the other.

    A task that reached its ``max_steps``, but no terminal state, is truncated. The numbers of its
    ``metrics()`` are logged. A sampler that has no tasks left begins again.
    """

    def __init__(self, sampler: Any) -> None:
        """Look at the first task.

        Args:
            sampler: With AllenAct's ``next_task``, ``reset``, ``set_seed`` and ``close``.

        Raises:
            ConfigurationError: If it has no task, or one with spaces that are not known here.
        """
        self._sampler = sampler
        self._task = self._next_task()
        sensors = self._task.observation_space.spaces
        self.observation_space = spaces.Dict(
            {name: _known(space, f"The sensor {name!r}") for name, space in sensors.items()}
        )
        self.action_space = _known(self._task.action_space, "The action")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Go on to the next task; with a seed, of the streams that it starts."""
        if seed is not None:
            self._sampler.set_seed(seed)
            self._sampler.reset()
        self._task = self._next_task()
        return self._task.get_observations(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take an action in the task."""
        result = self._task.step(action)
        if not result.done:
            return result.observation, float(result.reward), False, False, {}
        truncated = self._task.reached_max_steps() and not self._task.reached_terminal_state()
        info = dict(self._task.metrics())
        # AllenAct's tasks may observe nothing once they are done.
        seen = result.observation or self._task.get_observations()
        return seen, float(result.reward), not truncated, truncated, info

    def render(self) -> Any:
        """Return the task's own picture."""
        return self._task.render("rgb")

    def close(self) -> None:
        """Close the sampler."""
        self._sampler.close()

    def _next_task(self) -> Any:
        task = self._sampler.next_task()
        if task is None:
            self._sampler.reset()
            task = self._sampler.next_task()
        if task is None:
            raise ConfigurationError(
                f"{type(self._sampler).__name__} has no tasks: next_task() is None after a reset. "
                "Look at what the experiment's task_sampler_args give it."
            )
        return task


def _known(space: Any, what: str) -> spaces.Space[Any]:
    """Return a space of Gym, AllenAct's, or of Gymnasium as Gymnasium's."""
    kind = type(space).__name__
    if kind == "Discrete":
        return spaces.Discrete(int(space.n))
    if kind == "Box":
        low, high = (
            np.broadcast_to(space.low, space.shape),
            np.broadcast_to(space.high, space.shape),
        )
        return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype)
    raise ConfigurationError(
        f"{what} of the experiment's task is a {kind}, but must be a Box or Discrete. Leave it out "
        "of the sensors, or have it return numbers."
    )
