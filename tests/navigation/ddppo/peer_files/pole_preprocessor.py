# mypy: ignore-errors
"""Observations that a preprocessor makes of the sensor's, on the agent's device."""

import gym
import numpy as np
from allenact.algorithms.onpolicy_sync.losses import PPO
from allenact.algorithms.onpolicy_sync.losses.ppo import PPOConfig
from allenact.base_abstractions.experiment_config import MachineParams
from allenact.base_abstractions.preprocessor import Preprocessor, SensorPreprocessorGraph
from allenact.base_abstractions.sensor import SensorSuite
from allenact.embodiedai.models.basic_models import RNNActorCritic
from allenact.utils.experiment_utils import Builder, PipelineStage
from poles import Poles
from torch import cat


class Squares(Preprocessor):
    def __init__(self):
        space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
        super().__init__(input_uuids=["pole"], output_uuid="squares", observation_space=space)

    def to(self, device):
        return self

    def process(self, obs, *args, **kwargs):
        return cat((obs["pole"], obs["pole"] ** 2), dim=-1)


class PolePreprocessor(Poles):
    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return MachineParams(
            nprocesses=4 if mode == "train" else 0,
            devices=[],
            sensor_preprocessor_graph=SensorPreprocessorGraph(
                source_observation_spaces=SensorSuite(cls.SENSORS).observation_spaces,
                preprocessors=[Builder(Squares, {})],
            ),
        )

    @classmethod
    def create_model(cls, sensor_preprocessor_graph, **kwargs):
        return RNNActorCritic(
            "squares",
            gym.spaces.Discrete(2),
            sensor_preprocessor_graph.observation_spaces,
            hidden_size=8,
            rnn_type="LSTM",
        )

    @classmethod
    def training_pipeline(cls, **kwargs):
        return cls.pipeline(
            {"ppo": PPO(**PPOConfig)}, [PipelineStage(loss_names=["ppo"], max_stage_steps=256)]
        )
