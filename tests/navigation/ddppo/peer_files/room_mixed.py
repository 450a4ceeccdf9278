# mypy: ignore-errors
"""PPO and imitation at once, with weights, and a clip that decays."""

from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.algorithms.onpolicy_sync.losses.ppo import PPO, PPOConfig
from allenact.utils.experiment_utils import LinearDecay, PipelineStage
from rooms import Rooms


class RoomMixed(Rooms):
    @classmethod
    def training_pipeline(cls, **kwargs):
        ppo = PPO(clip_decay=LinearDecay(steps=256), **PPOConfig)
        stage = PipelineStage(
            loss_names=["ppo", "imitation"], loss_weights=[1.0, 0.5], max_stage_steps=256
        )
        return cls.pipeline({"ppo": ppo, "imitation": Imitation()}, [stage])
