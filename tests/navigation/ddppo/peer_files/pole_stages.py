# mypy: ignore-errors
"""Values first, until a criterion ends the stage, and PPO after it, with settings of its own."""

from allenact.algorithms.onpolicy_sync.losses.ppo import PPO, PPOConfig, PPOValue
from allenact.utils.experiment_utils import EarlyStoppingCriterion, PipelineStage
from poles import Poles


class After(EarlyStoppingCriterion):
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, stage_steps, total_steps, training_metrics):
        return stage_steps >= self.steps


class PoleStages(Poles):
    @classmethod
    def training_pipeline(cls, **kwargs):
        return cls.pipeline(
            {"value": PPOValue(clip_param=0.1), "ppo": PPO(**PPOConfig)},
            [
                PipelineStage(
                    loss_names=["value"],
                    max_stage_steps=10_000,
                    early_stopping_criterion=After(128),
                ),
                PipelineStage(loss_names=["ppo"], max_stage_steps=256, num_steps=32),
            ],
        )
