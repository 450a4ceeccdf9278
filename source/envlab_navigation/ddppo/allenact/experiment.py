"""AllenAct's ``ExperimentConfig`` as an experiment of DD-PPO."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from allenact.base_abstractions.experiment_config import ExperimentConfig as PeerConfig
from allenact.base_abstractions.experiment_config import MachineParams as PeerMachineParams
from allenact.utils import spaces_utils

from envlab_navigation.ddppo.allenact.model import PeerModel
from envlab_navigation.ddppo.allenact.stages import pipeline_of_peer
from envlab_navigation.ddppo.allenact.task_env import PeerTaskEnv
from envlab_navigation.ddppo.experiment import ExperimentConfig, MachineParams, Mode

if TYPE_CHECKING:
    from envlab.envs import BatchedEnv
    from envlab_navigation.ddppo.pipeline import TrainingPipeline

EXPERT = "envlab_navigation.ddppo.allenact.expert:ObservedExpert"


def is_experiment(value: Any) -> bool:
    """Return whether an object is a concrete class of AllenAct's experiments."""
    return (
        isinstance(value, type) and issubclass(value, PeerConfig) and not inspect.isabstract(value)
    )


class PeerExperiment(ExperimentConfig):
    """An AllenAct experiment.

    Attributes:
        peer: AllenAct's object.
        source: The file and the arguments of its construction, which workers repeat:
            AllenAct's classes cannot be pickled.
    """

    expert_entry_point = EXPERT

    def __init__(self, peer: Any, source: tuple[str, str]) -> None:
        self.peer, self.source = peer, source
        if hasattr(peer, "distributed_nodes"):
            self.distributed_nodes = peer.distributed_nodes
        self._model: PeerModel | None = None

    def tag(self) -> str:
        """Return AllenAct's tag, without characters that no task's id can have."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", str(self.peer.tag()))

    def training_pipeline(self, **kwargs: Any) -> TrainingPipeline:
        return pipeline_of_peer(self.peer.training_pipeline(**kwargs), self._unflatten)

    def machine_params(self, mode: Mode = "train", **kwargs: Any) -> MachineParams:
        """Return AllenAct's, which may be only a number of processes, with other device names."""
        made = self._peer_params(mode, **kwargs)
        counts = made.nprocesses
        devices = [-1 if device.type == "cpu" else (device.index or 0) for device in made.devices]
        return MachineParams(tuple(counts), devices, local_worker_ids=made.local_worker_ids)

    def make_sampler_fn(self, **kwargs: Any) -> Any:
        return self.peer.make_sampler_fn(**kwargs)

    def train_task_sampler_args(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return dict(self.peer.train_task_sampler_args(*args, **kwargs))

    def valid_task_sampler_args(self, **kwargs: Any) -> dict[str, Any]:
        return dict(self.peer.valid_task_sampler_args(**kwargs))

    def test_task_sampler_args(self, **kwargs: Any) -> dict[str, Any]:
        return dict(self.peer.test_task_sampler_args(**kwargs))

    def sampler_seeds(self, total: int) -> list[int]:
        """Return a seed for each: AllenAct's files index such a list."""
        return list(range(total))

    def task_env(self, sampler: Any) -> PeerTaskEnv:
        return PeerTaskEnv(sampler)

    def create_model(self, env: BatchedEnv) -> PeerModel:
        graph = self._peer_params("train").sensor_preprocessor_graph
        self._model = PeerModel(self.peer.create_model(sensor_preprocessor_graph=graph), graph)
        return self._model

    def _peer_params(self, mode: Mode, **kwargs: Any) -> Any:
        return PeerMachineParams.instance_from(self.peer.machine_params(mode, **kwargs))

    def _unflatten(self, actions: Any) -> Any:
        """Return actions of the network's space, which exists before losses are called."""
        assert self._model is not None
        return spaces_utils.unflatten(self._model.space, actions)
