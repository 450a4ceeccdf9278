# mypy: ignore-errors
"""Common parts of experiments in MiniGrid: an empty room, seen by the agent."""

import gym
from allenact.algorithms.onpolicy_sync.losses.a2cacktr import A2C, A2CConfig
from allenact.base_abstractions.experiment_config import ExperimentConfig
from allenact.base_abstractions.sensor import ExpertActionSensor, SensorSuite
from allenact.utils.experiment_utils import Builder, PipelineStage, TrainingPipeline
from allenact_plugins.minigrid_plugin.minigrid_models import (
    MiniGridSimpleConv,
    MiniGridSimpleConvRNN,
)
from allenact_plugins.minigrid_plugin.minigrid_sensors import EgocentricMiniGridSensor
from allenact_plugins.minigrid_plugin.minigrid_tasks import MiniGridTask, MiniGridTaskSampler
from gym_minigrid.envs import EmptyRandomEnv5x5
from torch import optim


class Rooms(ExperimentConfig):
    IMAGE = EgocentricMiniGridSensor(agent_view_size=5, view_channels=3)
    SENSORS = [IMAGE, ExpertActionSensor(action_space=gym.spaces.Discrete(3))]

    @classmethod
    def tag(cls):
        return cls.__name__

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": 4 if mode == "train" else 0, "devices": []}

    @classmethod
    def create_model(cls, kind=MiniGridSimpleConvRNN, **kwargs):
        return kind(
            action_space=gym.spaces.Discrete(3),
            observation_space=SensorSuite(cls.SENSORS).observation_spaces,
            num_objects=cls.IMAGE.num_objects,
            num_colors=cls.IMAGE.num_colors,
            num_states=cls.IMAGE.num_states,
            **({} if kind is not MiniGridSimpleConvRNN else {"hidden_size": 16}),
        )

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return MiniGridTaskSampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, **kwargs):
        return {
            "env_class": EmptyRandomEnv5x5,
            "sensors": self.SENSORS,
            "env_info": {},
            "task_class": MiniGridTask,
        }

    @staticmethod
    def pipeline(named_losses, stages):
        return TrainingPipeline(
            named_losses=named_losses,
            pipeline_stages=stages,
            optimizer_builder=Builder(optim.Adam, {"lr": 0.002}),
            **{"num_mini_batch": 1, "update_repeats": 2, "max_grad_norm": 0.5, "num_steps": 16},
            **{"gamma": 0.99, "use_gae": True, "gae_lambda": 1.0, "save_interval": 10_000},
            **{"advance_scene_rollout_period": None, "metric_accumulate_interval": 1_000},
        )


class RoomA2C(Rooms):
    """A2C by a network without memory."""

    SENSORS = [Rooms.IMAGE]

    @classmethod
    def create_model(cls, **kwargs):
        return super().create_model(MiniGridSimpleConv)

    @classmethod
    def training_pipeline(cls, **kwargs):
        stage = PipelineStage(loss_names=["a2c"], max_stage_steps=256)
        return cls.pipeline({"a2c": A2C(**A2CConfig)}, [stage])
