"""An experiment: one Python class that says what is trained, by which stages, on how many nodes.

The class and its methods are AllenAct's (0.5.4, ``allenact/base_abstractions/
experiment_config.py``), so that its files can be read here. What differs: a batch of environments
takes the place of processes with one sampler each, and a registered task can stand for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from torch import nn

    from envlab.distributed.context import DistributedContext
    from envlab.envs import BatchedEnv
    from envlab_navigation.ddppo.pipeline import TrainingPipeline
    from envlab_navigation.ddppo.task_env import TaskSamplerEnv

Mode = Literal["train", "valid", "test"]


class MachineParams:
    """How many environments run on which devices: a worker, here a rank, for each device.

    Attributes:
        nprocesses: Environments of each worker, of all nodes; ``(0,)`` in the mode ``valid`` turns
            validation off.
        devices: Of each worker: the index of a GPU, -1 for the CPU, or a device's name.
        sampler_devices: AllenAct's; environments here are on their worker's device.
        local_worker_ids: The workers of this node.
    """

    def __init__(
        self,
        nprocesses: int | Sequence[int],
        devices: Any = None,
        sensor_preprocessor_graph: Any = None,
        sampler_devices: Any = None,
        local_worker_ids: Sequence[int] | None = None,
    ) -> None:
        """Keep the lists.

        Raises:
            ConfigurationError: If there are not as many devices as workers.
        """
        self.nprocesses = tuple(nprocesses) if isinstance(nprocesses, Sequence) else (nprocesses,)
        self.devices = self._of_each_worker(devices)
        self.sampler_devices = self.devices
        if sampler_devices is not None:
            self.sampler_devices = self._of_each_worker(sampler_devices)
        self.sensor_preprocessor_graph = sensor_preprocessor_graph
        self.set_local_worker_ids(local_worker_ids)

    def set_local_worker_ids(self, ids: Sequence[int] | None) -> None:
        """Say which workers are of this node; None: all."""
        self.local_worker_ids = list(ids or range(len(self.devices)))

    def _of_each_worker(self, devices: Any) -> tuple[Any, ...]:
        if not isinstance(devices, Sequence) or isinstance(devices, str):
            return (-1 if devices is None else devices,) * len(self.nprocesses)
        if len(devices) != len(self.nprocesses):
            raise ConfigurationError(
                f"machine_params has {len(devices)} devices and {len(self.nprocesses)} "
                "nprocesses, but each worker needs one of both."
            )
        return tuple(devices)


class ExperimentConfig:
    """One experiment, to be derived from; its ``__init__`` takes what ``--config_kwargs`` gives."""

    TASK: ClassVar[str | None] = None
    """The task to train, by its id; None: :meth:`make_env` or :meth:`make_sampler_fn` makes the
    environments. Validation and play take its ``-Play-v0``, if there is one."""

    source: tuple[str, str] | None = None
    """File and arguments of which a worker makes it again; None: it can be pickled."""
    expert_entry_point: ClassVar[str | None] = None
    """What makes the expert that its stages learn from; None: there is none."""

    def tag(self) -> str:
        """Return the experiment's name: its runs are in ``logs/ddppo/<tag>``."""
        raise NotImplementedError

    def training_pipeline(self, **kwargs: Any) -> TrainingPipeline:
        """Return the stages, their losses and settings."""
        raise NotImplementedError

    def overrides(self, mode: Mode) -> Sequence[str]:
        """Return overrides of the task's configuration, such as ``env.houses.num_houses=500``.

        Those of the command line come after them, and win.
        """
        return ()

    def machine_params(self, mode: Mode = "train", **kwargs: Any) -> MachineParams | None:
        """Return how many environments run on which devices; None: what the launcher started.

        Args:
            mode: What for.
            **kwargs: ``machine_id``, the number of this node, where it is known.
        """
        return None

    def make_env(self, mode: Mode, *, num_envs: int, context: DistributedContext) -> BatchedEnv:
        """Return this rank's environments, where no ``TASK`` is named.

        Args:
            mode: What for.
            num_envs: Environments of each rank.
            context: Says which rank this is, and its device.
        """
        raise NotImplementedError

    def make_sampler_fn(self, **kwargs: Any) -> Any:
        """Return a task sampler, one for each environment, where there is neither of these.

        Args:
            **kwargs: What :meth:`train_task_sampler_args` returned, or that of the mode.
        """
        raise NotImplementedError

    def train_task_sampler_args(
        self,
        process_ind: int,
        total_processes: int,
        devices: list[int] | None = None,
        seeds: list[int] | None = None,
        deterministic_cudnn: bool = False,
    ) -> dict[str, Any]:
        """Return the arguments of a sampler.

        Args:
            process_ind: Number of the environment, over all ranks.
            total_processes: How many environments all ranks have.
            devices: The rank's GPU, by its index; None: the CPU.
            seeds: None: a sampler is given its seed by its ``set_seed``.
            deterministic_cudnn: AllenAct's; False.
        """
        raise NotImplementedError

    def valid_task_sampler_args(self, **kwargs: Any) -> dict[str, Any]:
        """Return the same for validation."""
        raise NotImplementedError

    def test_task_sampler_args(self, **kwargs: Any) -> dict[str, Any]:
        """Return the same for play and tests."""
        raise NotImplementedError

    def sampler_seeds(self, total: int) -> list[int] | None:
        """Return the seeds that samplers are made with; None: each reset of all gives them theirs.

        Args:
            total: How many samplers all ranks have.
        """
        return None

    def task_env(self, sampler: Any) -> TaskSamplerEnv:
        """Return a sampler as an environment."""
        from envlab_navigation.ddppo.task_env import TaskSamplerEnv

        return TaskSamplerEnv(sampler)

    def create_model(self, env: BatchedEnv) -> nn.Module | None:
        """Return the network; None: the one that ``agent.model`` describes."""
        return None
