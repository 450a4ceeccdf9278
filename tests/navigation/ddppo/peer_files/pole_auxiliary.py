# mypy: ignore-errors
"""Auxiliary tasks, each with a belief of its own, as navigation's networks have them."""

import gym
from allenact.algorithms.onpolicy_sync.losses import PPO
from allenact.algorithms.onpolicy_sync.losses.ppo import PPOConfig
from allenact.base_abstractions.sensor import SensorSuite
from allenact.embodiedai.aux_losses.losses import (
    CPCA2Loss,
    InverseDynamicsLoss,
    MultiAuxTaskNegEntropyLoss,
)
from allenact.embodiedai.models.fusion_models import AverageFusion
from allenact.embodiedai.models.visual_nav_models import VisualNavActorCritic
from allenact.utils.experiment_utils import PipelineStage
from poles import Poles
from torch import nn

TASKS = [InverseDynamicsLoss.UUID, CPCA2Loss.UUID]


class Beliefs(VisualNavActorCritic):
    def __init__(self, observation_space):
        super().__init__(
            action_space=gym.spaces.Discrete(2),
            observation_space=observation_space,
            hidden_size=8,
            multiple_beliefs=True,
            beliefs_fusion=AverageFusion,
            auxiliary_uuids=TASKS,
        )
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.create_state_encoders(
            obs_embed_size=8,
            prev_action_embed_size=4,
            num_rnn_layers=1,
            rnn_type="GRU",
            add_prev_actions=True,
            add_prev_action_null_token=True,
        )
        self.create_actorcritic_head()
        self.create_aux_models(obs_embed_size=8, action_embed_size=4)

    def forward_encoder(self, observations):
        return self.encoder(observations["pole"])


class PoleAuxiliary(Poles):
    @classmethod
    def create_model(cls, **kwargs):
        return Beliefs(SensorSuite(cls.SENSORS).observation_spaces)

    @classmethod
    def training_pipeline(cls, **kwargs):
        losses = {
            "ppo": PPO(**PPOConfig),
            "inverse": InverseDynamicsLoss(subsample_rate=1.0),
            "cpca": CPCA2Loss(subsample_rate=1.0),
            "entropy": MultiAuxTaskNegEntropyLoss(TASKS),
        }
        stage = PipelineStage(
            loss_names=list(losses), loss_weights=[1.0, 0.1, 0.1, 0.01], max_stage_steps=256
        )
        return cls.pipeline(losses, [stage])
