"""An experiment: one Python class with the task, the stages of training, and the number of nodes.

The class and its methods are AllenAct's (0.5.4, ``allenact/base_abstractions/
experiment_config.py``), so that its files can be read here. The difference: a batch of environments
replaces processes with one sampler each, and a registered task can replace it.
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
    """Numbers of environments by device: each device has a worker, here a rank.

    Attributes:
        nprocesses: Environments of each worker, of all nodes; ``(0,)`` in the mode ``valid`` turns
            validation off.
        devices: Device of each worker: the index of a GPU, -1 for the CPU, or a device's name.
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
        """Set the workers of this node; None: all."""
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
    """Base class of experiments; its ``__init__`` takes the arguments of ``--config_kwargs``."""

    TASK: ClassVar[str | None] = None
    """The task to train, by its id; None: :meth:`make_env` or :meth:`make_sampler_fn` makes the
    environments. Validation and play take its ``-Play-v0``, if there is one."""

    source: tuple[str, str] | None = None
    """File and arguments from which a worker makes it; None: it can be pickled."""
    expert_entry_point: ClassVar[str | None] = None
    """Entry point of the expert that its stages learn from; None: no expert."""

    def tag(self) -> str:
        """Return the experiment's name: its runs are in ``logs/ddppo/<tag>``."""
        raise NotImplementedError

    def training_pipeline(self, **kwargs: Any) -> TrainingPipeline:
        """Return the stages, their losses and settings."""
        raise NotImplementedError

    def overrides(self, mode: Mode) -> Sequence[str]:
        """Return overrides of the task's configuration, such as ``env.houses.num_houses=500``.

        The command line's overrides come later and win.
        """
        return ()

    def machine_params(self, mode: Mode = "train", **kwargs: Any) -> MachineParams | None:
        """Return numbers of environments by device; None: one rank per started process.

        Args:
            mode: The purpose.
            **kwargs: ``machine_id``, the number of this node, if known.
        """
        return None

    def make_env(self, mode: Mode, *, num_envs: int, context: DistributedContext) -> BatchedEnv:
        """Return this rank's environments, if there is no ``TASK``.

        Args:
            mode: The purpose.
            num_envs: Environments of each rank.
            context: The process's context, with rank and device.
        """
        raise NotImplementedError

    def make_sampler_fn(self, **kwargs: Any) -> Any:
        """Return a task sampler, one for each environment, if there is neither of these.

        Args:
            **kwargs: The result of :meth:`train_task_sampler_args`, or of the mode's counterpart.
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
            total_processes: Number of environments of all ranks.
            devices: The rank's GPU, by its index; None: the CPU.
            seeds: None: a sampler gets its seed by its ``set_seed``.
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
        """Return the seeds that samplers are made with; None: each reset of all sets them.

        Args:
            total: Number of samplers of all ranks.
        """
        return None

    def task_env(self, sampler: Any) -> TaskSamplerEnv:
        """Return a sampler as an environment."""
        from envlab_navigation.ddppo.task_env import TaskSamplerEnv

        return TaskSamplerEnv(sampler)

    def create_model(self, env: BatchedEnv) -> nn.Module | None:
        """Return the network; None: the one that ``agent.model`` describes."""
        return None
