# mypy: ignore-errors
"""PPO whose learning rate falls in two lines, and which is validated."""

from allenact.algorithms.onpolicy_sync.losses import PPO
from allenact.algorithms.onpolicy_sync.losses.ppo import PPOConfig
from allenact.utils.experiment_utils import Builder, LinearDecay, MultiLinearDecay, PipelineStage
from poles import Poles
from torch.optim.lr_scheduler import LambdaLR


class PolePPO(Poles):
    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": {"train": 4, "valid": 1}.get(mode, 0), "devices": []}

    def valid_task_sampler_args(self, process_ind, total_processes, seeds=None, **kwargs):
        return {"sensors": self.SENSORS, "seed": 5, "max_tasks": 2}

    @classmethod
    def training_pipeline(cls, **kwargs):
        lines = [LinearDecay(steps=128, endp=0.5), LinearDecay(steps=256, startp=0.5, endp=0.0)]
        return cls.pipeline(
            {"ppo": Builder(PPO, kwargs={}, default=PPOConfig)},
            [PipelineStage(loss_names=["ppo"], max_stage_steps=384)],
            lr_scheduler_builder=Builder(LambdaLR, {"lr_lambda": MultiLinearDecay(lines)}),
            save_interval=192,
        )
