"""Cartpole with what AMP asks of a task: motions to imitate, and observations of its own motion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_env_cfg
from envlab.rl.loop.metrics import Iteration
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.torch.learner import TorchLearner, make_learner

NUM_ENVS = 16
AGENT = {
    "agent": {
        "class": "AMP",
        "rollouts": 8,
        "learning_epochs": 2,
        "amp_batch_size": 32,
        "learning_rate_scheduler": "KLAdaptiveLR",
        "observation_preprocessor": "RunningStandardScaler",
        "value_preprocessor": "RunningStandardScaler",
        "amp_observation_preprocessor": "RunningStandardScaler",
    },
    "motion_dataset": {"class": "RandomMemory", "memory_size": 64},
    "reply_buffer": {"class": "RandomMemory", "memory_size": 128},
}


class MotionEnv:
    """Cartpole whose motion to imitate is to stand still."""

    def __init__(self, context: DistributedContext) -> None:
        task = get_task("Isaac-Cartpole-v0")
        env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": NUM_ENVS}, "seed": 3}, "env")
        self._env = task.make(env_cfg, context=context)
        self.amp_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        obs, reward, terminated, truncated, info = self._env.step(actions)
        return obs, reward, terminated, truncated, {**info, "amp_obs": obs["policy"].clone()}

    def collect_reference_motions(self, num_samples: int) -> torch.Tensor:
        return 0.01 * torch.randn(num_samples, 4)


class QuietTraining:
    """Stands in for :class:`envlab.rl.loop.training.Training`; keeps the losses."""

    def __init__(self) -> None:
        self.losses: list[Mapping[str, float]] = []

    def start(self, iteration: int) -> None: ...

    def add_step(self, *_: Any) -> None: ...

    def write_scalars(self, *_: Any) -> None: ...

    def finish_iteration(self, iteration: Iteration) -> Any:
        self.losses.append(iteration.losses)
        return type(
            "Record",
            (),
            {
                "losses": {},
                "collect_s": 0.0,
                "mean_return": None,
                "mean_episode_length": None,
                "learning_rate": iteration.learning_rate,
            },
        )()


def train_amp(
    context: DistributedContext, iterations: int = 2, grad_sync: str = "ddp"
) -> tuple[TorchLearner, QuietTraining]:
    """Train AMP briefly; return its learner and what it reported."""
    torch.manual_seed(5)
    cfg = SkrlCfg.of("amp").with_task_values(AGENT).resolved()
    learner = make_learner(MotionEnv(context), cfg, context, grad_sync=grad_sync)
    torch.manual_seed(5 + context.rank)
    training = QuietTraining()
    learner.learn(training, 0, iterations)  # type: ignore[arg-type]
    return learner, training
