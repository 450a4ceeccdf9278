# mypy: ignore-errors
"""DAgger: the expert acts less and less; then PPO and imitation at once, with weights."""

from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.algorithms.onpolicy_sync.losses.ppo import PPO, PPOConfig
from allenact.utils.experiment_utils import LinearDecay, PipelineStage
from rooms import Rooms


class RoomDagger(Rooms):
    @classmethod
    def training_pipeline(cls, **kwargs):
        ppo = PPO(clip_decay=LinearDecay(steps=256), **PPOConfig)
        return cls.pipeline(
            {"imitation": Imitation(), "ppo": ppo},
            [
                PipelineStage(
                    loss_names=["imitation"],
                    max_stage_steps=256,
                    teacher_forcing=LinearDecay(startp=1.0, endp=0.0, steps=256),
                ),
                PipelineStage(
                    loss_names=["ppo", "imitation"], loss_weights=[1.0, 0.5], max_stage_steps=128
                ),
            ],
        )
