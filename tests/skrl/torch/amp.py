"""Cartpole with AMP's needs: motions to imitate, and observations of its own motion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_env_cfg
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.torch.learner import TorchLearner, make_learner

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


def train_amp(
    context: DistributedContext, iterations: int = 2, grad_sync: str = "ddp"
) -> tuple[TorchLearner, Mapping[str, float]]:
    """Train AMP briefly; return its learner and its last losses."""
    torch.manual_seed(5)
    cfg = SkrlCfg.of("amp").with_task_values(AGENT).resolved()
    learner = make_learner(MotionEnv(context), cfg, context, grad_sync=grad_sync)
    torch.manual_seed(5 + context.rank)
    learner.start(iterations)
    for number in range(1, iterations + 1):
        losses = learner.iterate(number, lambda *_: None).losses
    return learner, losses
