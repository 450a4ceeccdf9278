"""AllenAct's task samplers as environments: ``make_sampler_fn`` and ``*_task_sampler_args``.

AllenAct (0.5.4, ``allenact/base_abstractions/task.py``) has one sampler a process, which hands out
tasks; a task is an episode. Here each is an environment of :mod:`envlab.host`, in this process or
in workers.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
from gymnasium.envs.registration import EnvSpec

from envlab.distributed.context import DistributedContext
from envlab.envs.gym_bridge import GroupedGymEnv, GymEnvCfg
from envlab_navigation.ddppo.experiment_file import calling, load_again

if TYPE_CHECKING:
    from envlab_navigation.ddppo.experiment import ExperimentConfig, Mode
    from envlab_navigation.ddppo.task_env import TaskSamplerEnv


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
            experiment: Its ``make_sampler_fn`` makes one, from the arguments for ``mode``.
            mode: The purpose.
            cfg: Number of samplers, and workers.
            context: The process's context.
            **kwargs: Arguments of :class:`GymEnv`.

        Raises:
            ConfigurationError: If no network here takes a sensor's observation.
        """
        module = sys.modules[type(experiment).__module__]
        file = Path(str(module.__file__) if experiment.source is None else experiment.source[0])
        if experiment.source is None:
            cloudpickle.register_pickle_by_value(module)  # workers cannot import the user's file
        total = cfg.scene.num_envs * context.world_size
        cuda = context.device.index if context.device.type == "cuda" else None
        creator: Any = _Maker(experiment, experiment.source, mode, total, cuda, file)
        spec = EnvSpec(id="TaskSampler-v0", entry_point=creator, order_enforce=False)
        super().__init__(spec, cfg, context=context, **kwargs)

    def _build(self) -> None:
        self._maker = replace(self._maker, tells_index=True)
        super()._build()


@dataclass
class _Maker:
    """Makes an environment of one sampler, in this process or in a worker."""

    experiment: ExperimentConfig | None
    source: tuple[str, str] | None
    """Source from which a worker loads the experiment; None: the object itself is sent."""
    mode: Mode
    total: int
    cuda: int | None
    file: Path

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | ({} if self.source is None else {"experiment": None})

    def __call__(self, index: int, render_mode: str | None = None) -> TaskSamplerEnv:
        return calling(self.file, "in make_sampler_fn or its arguments", lambda: self._make(index))

    def _make(self, index: int) -> TaskSamplerEnv:
        if self.experiment is None:
            assert self.source is not None
            self.experiment = load_again(self.source)
        experiment = self.experiment
        arguments = getattr(experiment, f"{self.mode}_task_sampler_args")(
            process_ind=index,
            total_processes=self.total,
            devices=None if self.cuda is None else [self.cuda],
            seeds=experiment.sampler_seeds(self.total),
            deterministic_cudnn=False,
        )
        return experiment.task_env(experiment.make_sampler_fn(**arguments))
