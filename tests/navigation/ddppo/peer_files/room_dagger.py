# mypy: ignore-errors
"""DAgger: the expert acts less and less, and PPO takes over."""

from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.algorithms.onpolicy_sync.losses.ppo import PPO, PPOConfig
from allenact.utils.experiment_utils import LinearDecay, PipelineStage
from rooms import Rooms


class RoomDagger(Rooms):
    @classmethod
    def training_pipeline(cls, **kwargs):
        return cls.pipeline(
            {"imitation": Imitation(), "ppo": PPO(**PPOConfig)},
            [
                PipelineStage(
                    loss_names=["imitation"],
                    max_stage_steps=256,
                    teacher_forcing=LinearDecay(startp=1.0, endp=0.0, steps=256),
                ),
                PipelineStage(loss_names=["ppo"], max_stage_steps=128),
            ],
        )
