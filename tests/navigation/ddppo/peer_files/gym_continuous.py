# mypy: ignore-errors
"""PPO on an environment of Gym's with continuous actions: Box2D's lander, or one of MuJoCo's."""

import gym
from allenact.algorithms.onpolicy_sync.losses.ppo import PPO
from allenact.base_abstractions.experiment_config import ExperimentConfig
from allenact.base_abstractions.sensor import SensorSuite
from allenact.utils.experiment_utils import Builder, LinearDecay, PipelineStage, TrainingPipeline
from allenact_plugins.gym_plugin.gym_models import MemorylessActorCritic
from allenact_plugins.gym_plugin.gym_sensors import GymBox2DSensor, GymMuJoCoSensor
from allenact_plugins.gym_plugin.gym_tasks import GymTaskSampler
from torch import optim
from torch.optim.lr_scheduler import LambdaLR


class Continuous(ExperimentConfig):
    def __init__(self, name="LunarLanderContinuous-v2", actions=2):
        self.name, self.actions = name, actions
        kind = GymBox2DSensor if "Lander" in name else GymMuJoCoSensor
        self.sensors = [kind(name, uuid="gym_data")]

    def tag(self):
        return f"Gym-{self.name}"

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": 2 if mode == "train" else 0, "devices": []}

    def create_model(self, **kwargs):
        return MemorylessActorCritic(
            input_uuid="gym_data",
            action_space=gym.spaces.Box(-1.0, 1.0, (self.actions,)),
            observation_space=SensorSuite(self.sensors).observation_spaces,
            action_std=0.4,
        )

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return GymTaskSampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, seeds=None, **kwargs):
        return {"gym_env_type": self.name, "sensors": self.sensors, "seed": seeds[process_ind]}

    def training_pipeline(self, **kwargs):
        return TrainingPipeline(
            named_losses={"ppo": PPO(clip_param=0.2, value_loss_coef=0.5, entropy_coef=0.0)},
            pipeline_stages=[PipelineStage(loss_names=["ppo"], max_stage_steps=256)],
            optimizer_builder=Builder(optim.Adam, {"lr": 1e-3}),
            lr_scheduler_builder=Builder(LambdaLR, {"lr_lambda": LinearDecay(steps=512)}),
            num_mini_batch=2,
            update_repeats=3,
            max_grad_norm=0.5,
            num_steps=64,
            gamma=0.99,
            use_gae=False,
            gae_lambda=0.95,
            advance_scene_rollout_period=None,
            save_interval=10_000,
            metric_accumulate_interval=1_000,
        )
