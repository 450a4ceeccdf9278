# mypy: ignore-errors
"""An experiment in AllenAct's words, as its tutorial for several nodes uses them."""

import math
from typing import Optional, Sequence  # noqa: UP035

import torch
from allenact.algorithms.onpolicy_sync.losses import PPO
from allenact.algorithms.onpolicy_sync.losses.ppo import PPOConfig
from allenact.utils.experiment_utils import (
    Builder,
    LinearDecay,
    MultiLinearDecay,
    PipelineStage,
    TrainingPipeline,
)
from projects.objectnav_baselines.experiments.robothor import (
    objectnav_robothor_rgb_resnet18gru_ddppo as baseline,
)


class Distributed(baseline.ObjectNavRoboThorRGBPPOExperimentConfig):
    THOR_COMMIT_ID = "0" * 40
    THOR_IS_HEADLESS = True

    def __init__(
        self,
        distributed_nodes: int = 1,
        num_train_processes: Optional[int] = None,  # noqa: UP045
        train_gpu_ids: Optional[Sequence[int]] = None,  # noqa: UP045
    ):
        super().__init__(num_train_processes=num_train_processes, train_gpu_ids=train_gpu_ids)
        self.distributed_nodes = distributed_nodes

    def tag(self):
        return "Distributed"

    def env_args(self):
        arguments = super().env_args()
        arguments.pop("commit_id", None)
        return arguments

    def machine_params(self, mode="train", **kwargs):
        params = super().machine_params(mode, **kwargs)
        if mode == "train":
            params.devices = params.devices * self.distributed_nodes
            params.nprocesses = params.nprocesses * self.distributed_nodes
            params.sampler_devices = params.sampler_devices * self.distributed_nodes
            if "machine_id" in kwargs:
                here = len(self.train_gpu_ids)
                first = here * kwargs["machine_id"]
                params.set_local_worker_ids(list(range(first, first + here)))
        elif mode == "valid":
            params.nprocesses = (0,)
        return params

    def training_pipeline(self, **kwargs):
        samplers = self.num_train_processes // len(self.train_gpu_ids)
        most = min(samplers // 2, self.distributed_nodes)
        batches = next(number for number in range(most, 0, -1) if samplers % number == 0)
        decays = [
            LinearDecay(steps=30_600_000, startp=1.0, endp=0.898),
            LinearDecay(steps=269_400_000, startp=0.898, endp=0),
        ]
        return TrainingPipeline(
            save_interval=5_000_000,
            metric_accumulate_interval=10_000,
            optimizer_builder=Builder(torch.optim.Adam, {"lr": 3e-4}),
            num_mini_batch=1,
            update_repeats=4,
            max_grad_norm=0.5,
            num_steps=128,
            named_losses={"ppo_loss": PPO(**PPOConfig, show_ratios=False)},
            gamma=0.99,
            use_gae=True,
            gae_lambda=0.95,
            advance_scene_rollout_period=self.ADVANCE_SCENE_ROLLOUT_PERIOD,
            pipeline_stages=[
                PipelineStage(
                    loss_names=["ppo_loss"],
                    max_stage_steps=int(30e6),
                    num_mini_batch=batches,
                    update_repeats=4 * math.ceil(self.distributed_nodes / batches),
                ),
                PipelineStage(loss_names=["ppo_loss"], max_stage_steps=int(270e6)),
            ],
            lr_scheduler_builder=Builder(
                torch.optim.lr_scheduler.LambdaLR, {"lr_lambda": MultiLinearDecay(decays)}
            ),
        )
