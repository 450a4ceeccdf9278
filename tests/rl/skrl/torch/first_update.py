"""The first update of skrl's PPO on Cartpole, with random actions that belong to the environments.

In training, ranks sample actions with generators of their own. Here the samples come from a stream
of the environments, so that how these are spread over ranks changes nothing but rounding.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch.distributions import Normal

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import seed_everything
from envlab.registry import get_task, load_env_cfg
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.torch.learner import make_learner
from tests.rl.skrl.torch.amp import QuietTraining

NUM_STEPS = 16
NUM_ENVS = 1024
TASK = "Isaac-Cartpole-v0"

AGENT: dict[str, Any] = {
    "agent": {
        "class": "PPO",
        "rollouts": NUM_STEPS,
        "observation_preprocessor": "RunningStandardScaler",
        "value_preprocessor": "RunningStandardScaler",
        "time_limit_bootstrap": True,
        # One step on all data; clipping would only rescale the gradients.
        "learning_epochs": 1,
        "mini_batches": 1,
        "grad_norm_clip": 0.0,
    },
    "memory": {"class": "RandomMemory", "memory_size": -1, "replacement": False},
}


def first_update(context: DistributedContext, grad_sync: str = "ddp") -> dict[str, Any]:
    """Return initial states, gradients before the optimizer's first step, normalisers after it."""
    task = get_task(TASK)
    num_envs = NUM_ENVS // context.world_size
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": num_envs}, "seed": 7}, "env")
    seed_everything(7)
    env = task.make(env_cfg, context=context)
    cfg = SkrlCfg().with_task_values(AGENT).resolved()
    learner = make_learner(env, cfg, context, grad_sync=grad_sync)
    seed_everything(7 + context.rank)
    initial = torch.cat((env.sim.data.qpos, env.sim.data.qvel), dim=1).clone()
    # Half of the environments reach the time limit within the rollout.
    limit = env.max_episode_length
    lengths = env.random.stream("lengths").integers(limit - 2 * NUM_STEPS, limit)
    env.episode_length_buf = lengths
    noise = env.random.stream("test")

    def sample(distribution: Normal, *_: Any) -> torch.Tensor:
        mean = distribution.loc
        if len(mean) != num_envs or torch.is_grad_enabled():
            return mean  # the update samples too, and ignores it
        return mean + distribution.scale * noise.normal(0.0, 1.0, mean.shape[1])

    agent = learner.agent
    gradients: dict[str, torch.Tensor] = {}
    step = agent.optimizer.step

    def capture(*args: Any) -> None:
        for name, parameter in agent.policy.named_parameters():
            assert parameter.grad is not None
            gradients[name.removeprefix("module.")] = parameter.grad.clone()
        step(*args)

    agent.optimizer.step = capture
    with mock.patch.object(Normal, "rsample", sample):
        learner.learn(QuietTraining(), 0, 1)  # type: ignore[arg-type]
    env.close()
    scalers = ("observation_preprocessor", "value_preprocessor")
    return {
        "initial": initial,
        "num_time_outs": int(agent.memory.get_tensor_by_name("truncated").sum()),
        "gradients": gradients,
        "buffers": {
            f"{scaler}.{name}": buffer.clone()
            for scaler in scalers
            for name, buffer in agent.checkpoint_modules[scaler].named_buffers()
        },
    }
