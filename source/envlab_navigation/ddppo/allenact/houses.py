"""AllenAct's names for experiments in envlab's houses, without AllenAct.

``--allenact`` maps six module paths to this one if a file needs no more. The base experiment
of AllenAct's tutorial runs in envlab's own houses: its samplers become a batch of them.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from envlab.errors import ConfigurationError
from envlab_navigation.ddppo import losses, pipeline, schedules
from envlab_navigation.ddppo.experiment import ExperimentConfig, MachineParams, Mode
from envlab_navigation.ddppo.imitation import Imitation


class PPO(losses.PPO):
    """PPO with AllenAct's arguments; ``show_ratios`` has no effect: ratios are always logged."""

    def __init__(
        self,
        clip_param: float,
        value_loss_coef: float,
        entropy_coef: float,
        use_clipped_value_loss: bool = True,
        clip_decay: Callable[[int], float] | None = None,
        normalize_advantage: bool = True,
        show_ratios: bool = False,
    ) -> None:
        if not normalize_advantage:
            raise ConfigurationError(
                "PPO(normalize_advantage=False) is not offered: advantages are normalised by the "
                "moments over all ranks."
            )
        super().__init__(
            clip_param, value_loss_coef, entropy_coef, use_clipped_value_loss, clip_decay
        )


PPO_CONFIG = {"clip_param": 0.1, "value_loss_coef": 0.5, "entropy_coef": 0.01}
SAMPLERS_PER_NODE = 60
"""The tutorial's."""
CPU = (-1,)


class ObjectNavRoboThorRGBPPOExperimentConfig(ExperimentConfig):
    """RoboTHOR ObjectNav by colour images, a ResNet18 and a GRU, in envlab's houses.

    Steps of 0.25 m, turns of 30 degrees and 500 steps an episode are RoboTHOR's, as the task's.
    """

    TASK = "Nav-ObjectNav-RGB-v0"
    THOR_COMMIT_ID: str | None = None
    ADVANCE_SCENE_ROLLOUT_PERIOD: int | None = None
    STEP_SIZE, ROTATION_DEGREES, VISIBILITY_DISTANCE, MAX_STEPS = 0.25, 30.0, 1.0, 500

    def __init__(
        self,
        num_train_processes: int | None = None,
        train_gpu_ids: Sequence[int] | None = None,
        val_gpu_ids: Sequence[int] | None = None,
        test_gpu_ids: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        gpus = tuple(range(torch.cuda.device_count())) or CPU
        # AllenAct has no GPU ids on a CPU, and its tutorial divides by their number.
        self.train_gpu_ids = gpus if train_gpu_ids is None else tuple(train_gpu_ids)
        self.val_gpu_ids = gpus[-1:] if val_gpu_ids is None else tuple(val_gpu_ids)
        self.test_gpu_ids = gpus[-1:] if test_gpu_ids is None else tuple(test_gpu_ids)
        self.num_train_processes = num_train_processes or SAMPLERS_PER_NODE

    def env_args(self) -> dict[str, Any]:
        """Return AllenAct's arguments of its simulator; nothing here reads them."""
        return {"commit_id": self.THOR_COMMIT_ID, "gridSize": self.STEP_SIZE}

    def overrides(self, mode: Mode) -> Sequence[str]:
        return (
            f"env.step_m={self.STEP_SIZE}",
            f"env.turn_deg={self.ROTATION_DEGREES}",
            f"env.max_episode_length={self.MAX_STEPS}",
            "agent.model.encoder=resnet18",
        )

    def machine_params(self, mode: Mode = "train", **kwargs: Any) -> MachineParams:
        if mode == "train":
            share, rest = divmod(self.num_train_processes, len(self.train_gpu_ids))
            counts = [share + (n < rest) for n in range(len(self.train_gpu_ids))]
            return MachineParams(counts, self.train_gpu_ids, sampler_devices=self.train_gpu_ids)
        return MachineParams(1, self.val_gpu_ids if mode == "valid" else self.test_gpu_ids)


_ON_POLICY = "allenact.algorithms.onpolicy_sync.losses"
SURFACE: dict[str, dict[str, Any]] = {
    _ON_POLICY: {"PPO": PPO},
    f"{_ON_POLICY}.ppo": {"PPO": PPO, "PPOConfig": PPO_CONFIG},
    f"{_ON_POLICY}.imitation": {"Imitation": Imitation},
    "allenact.utils.experiment_utils": {
        **{one.__name__: one for one in (schedules.Builder, schedules.LinearDecay)},
        "MultiLinearDecay": schedules.MultiLinearDecay,
        "PipelineStage": pipeline.PipelineStage,
        "TrainingPipeline": pipeline.TrainingPipeline,
        "TrainingSettings": pipeline.TrainingSettings,
    },
    "allenact.base_abstractions.experiment_config": {
        "ExperimentConfig": ExperimentConfig,
        "MachineParams": MachineParams,
    },
    "projects.objectnav_baselines.experiments.robothor.objectnav_robothor_rgb_resnet18gru_ddppo": {
        "ObjectNavRoboThorRGBPPOExperimentConfig": ObjectNavRoboThorRGBPPOExperimentConfig
    },
}
"""Names by AllenAct's modules."""


def install_surface() -> None:
    """Map AllenAct's module paths to this module, also if AllenAct is installed."""
    for path, names in SURFACE.items():
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            if not _is_stand_in(sys.modules.get(name)):
                sys.modules[name] = types.ModuleType(name)
                sys.modules[name].__path__ = []  # a package
        vars(sys.modules[path]).update(names)


def _is_stand_in(module: types.ModuleType | None) -> bool:
    return module is not None and module.__spec__ is None
