# mypy: ignore-errors
"""Common parts of experiments on Gym's CartPole, as of a user's own tasks."""

import gym
import numpy as np
from allenact.base_abstractions.experiment_config import ExperimentConfig
from allenact.base_abstractions.misc import RLStepResult
from allenact.base_abstractions.sensor import Sensor, SensorSuite
from allenact.base_abstractions.task import Task, TaskSampler
from allenact.embodiedai.models.basic_models import RNNActorCritic
from allenact.utils.experiment_utils import Builder, TrainingPipeline
from torch import optim


class PoleSensor(Sensor):
    """Where cart and pole are, and how fast."""

    def __init__(self, uuid="pole"):
        super().__init__(uuid, gym.spaces.Box(-np.inf, np.inf, (4,), np.float32))

    def get_observation(self, env, task, *args, **kwargs):
        return task.seen


class PoleTask(Task):
    """An episode; the expert pushes the way the pole falls."""

    def __init__(self, env, sensors, max_steps=20):
        self.seen, self.fell = env.reset(), False
        super().__init__(env, sensors, {}, max_steps=max_steps)

    @property
    def action_space(self):
        return self.env.action_space

    def render(self, mode="rgb", *args, **kwargs):
        raise NotImplementedError

    def _step(self, action):
        self.seen, reward, self.fell, info = self.env.step(action)
        return RLStepResult(self.get_observations(), reward, self.is_done(), info)

    def reached_terminal_state(self):
        return self.fell

    def close(self):
        pass

    def query_expert(self, **kwargs):
        return int(self.seen[2] + self.seen[3] > 0), True


class PoleSampler(TaskSampler):
    """Episodes without end, or so many."""

    last_sampled_task, all_observation_spaces_equal = None, True

    def __init__(self, sensors, seed, task_class=PoleTask, max_tasks=None):
        self.env, self.sensors, self.task_class = gym.make("CartPole-v1"), sensors, task_class
        self.max_tasks, self.left = max_tasks, max_tasks
        self.set_seed(seed)

    @property
    def length(self):
        return float("inf") if self.left is None else self.left

    def next_task(self, force_advance_scene=False):
        if self.left is not None:
            if self.left == 0:
                return None
            self.left -= 1
        return self.task_class(self.env, self.sensors)

    def close(self):
        self.env.close()

    def reset(self):
        self.left = self.max_tasks

    def set_seed(self, seed):
        self.env.seed(seed)


class Poles(ExperimentConfig):
    """Four poles; experiments add a pipeline."""

    SENSORS = [PoleSensor()]
    TASK = PoleTask

    @classmethod
    def tag(cls):
        return cls.__name__

    @classmethod
    def machine_params(cls, mode="train", **kwargs):
        return {"nprocesses": 4 if mode == "train" else 0, "devices": []}

    @classmethod
    def create_model(cls, **kwargs):
        return RNNActorCritic(
            "pole",
            gym.spaces.Discrete(2),
            SensorSuite(cls.SENSORS).observation_spaces,
            hidden_size=8,
        )

    @classmethod
    def make_sampler_fn(cls, **kwargs):
        return PoleSampler(**kwargs)

    def train_task_sampler_args(self, process_ind, total_processes, seeds=None, **kwargs):
        return {"sensors": self.SENSORS, "seed": seeds[process_ind], "task_class": self.TASK}

    @staticmethod
    def pipeline(named_losses, stages, **settings):
        return TrainingPipeline(
            named_losses=named_losses,
            pipeline_stages=stages,
            optimizer_builder=Builder(optim.Adam, {"lr": 0.01}),
            **{
                "num_mini_batch": 2,
                "update_repeats": 2,
                "max_grad_norm": 0.5,
                "num_steps": 16,
                "gamma": 0.99,
                "use_gae": True,
                "gae_lambda": 0.95,
                "advance_scene_rollout_period": None,
                "save_interval": 10_000,
                "metric_accumulate_interval": 128,
                **settings,
            },
        )
