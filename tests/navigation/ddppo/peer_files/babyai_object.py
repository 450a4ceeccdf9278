# mypy: ignore-errors
"""BabyAI's simplest level, learned from its bot, which acts less and less."""

import gym
from allenact.algorithms.onpolicy_sync.losses.imitation import Imitation
from allenact.base_abstractions.experiment_config import ExperimentConfig, MachineParams
from allenact.base_abstractions.sensor import ExpertActionSensor, SensorSuite
from allenact.utils.experiment_utils import Builder, LinearDecay, PipelineStage, TrainingPipeline
from allenact_plugins.babyai_plugin.babyai_models import BabyAIRecurrentACModel
from allenact_plugins.babyai_plugin.babyai_tasks import BabyAITask, BabyAITaskSampler
from allenact_plugins.minigrid_plugin.minigrid_sensors import EgocentricMiniGridSensor
from torch import optim

ACTIONS = len(BabyAITask.class_action_names())


class BabyAIObject(ExperimentConfig):
    SENSORS = [
        EgocentricMiniGridSensor(agent_view_size=7, view_channels=3),
        ExpertActionSensor(nactions=ACTIONS),
    ]

    @classmethod
    def tag(cls):
        return "BabyAIObject"

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return MachineParams(nprocesses=4 if mode == "train" else 0, devices=[])

    @classmethod
    def create_model(cls, **kwargs):
        return BabyAIRecurrentACModel(
            action_space=gym.spaces.Discrete(ACTIONS),
            observation_space=SensorSuite(cls.SENSORS).observation_spaces,
            use_instr=False,
            use_memory=True,
            arch="cnn1",
            instr_dim=8,
            lang_model="gru",
            memory_dim=16,
        )

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return BabyAITaskSampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, seeds=None, **kwargs):
        return {
            "env_builder": "BabyAI-GoToObj-v0",
            "sensors": self.SENSORS,
            "seed": seeds[process_ind],
        }

    @classmethod
    def training_pipeline(cls, **kwargs):
        stage = PipelineStage(
            loss_names=["imitation"],
            max_stage_steps=256,
            teacher_forcing=LinearDecay(startp=1.0, endp=0.0, steps=256),
        )
        return TrainingPipeline(
            named_losses={"imitation": Imitation()},
            pipeline_stages=[stage],
            optimizer_builder=Builder(optim.Adam, {"lr": 1e-3}),
            num_mini_batch=2,
            update_repeats=2,
            max_grad_norm=0.5,
            num_steps=16,
            gamma=0.99,
            use_gae=True,
            gae_lambda=0.99,
            advance_scene_rollout_period=None,
            save_interval=2**31,
            metric_accumulate_interval=512,
        )
