"""The first update of PPO on Cartpole, with random actions that belong to the environments.

In training, each rank samples actions with its own generator. Here the samples come from a stream
of the environments, so that how these are spread over ranks changes nothing but rounding.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import seed_everything
from envlab.registry import get_task, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from envlab.rsl_rl.recorded_update import RecordedUpdate
from tests.graphs import capturable_on_a_cpu

NUM_STEPS = 16
NUM_ENVS = 1024
TASK = "Isaac-Cartpole-v0"

AGENT = {
    "num_steps_per_env": NUM_STEPS,
    "actor": {"hidden_dims": [32, 32], "obs_normalization": True},
    "critic": {"hidden_dims": [32, 32], "obs_normalization": True},
    # One step on all data; clipping would only rescale the gradients.
    "algorithm": {"num_learning_epochs": 1, "num_mini_batches": 1, "max_grad_norm": 1e9},
}


def captured(
    optimizer: torch.optim.Optimizer, model: torch.nn.Module, *, of_all: bool = True
) -> dict[str, torch.Tensor]:
    """Return where the gradients will be that the optimizer's next step takes.

    Args:
        optimizer: Its step is replaced.
        model: Whose parameters are checked.
        of_all: Whether each parameter must have a gradient.
    """
    gradients: dict[str, torch.Tensor] = {}
    step = optimizer.step

    def capture() -> None:
        for name, parameter in model.named_parameters():
            assert not of_all or parameter.grad is not None
            if parameter.grad is not None:
                gradients[name] = parameter.grad.clone()
        step()

    optimizer.step = capture  # type: ignore[method-assign,assignment]
    return gradients


def first_update(context: DistributedContext, grad_sync: str = "ddp") -> dict[str, Any]:
    """Return initial states, gradients before the optimizer's first step, normalisers after it.

    ``grad_sync``: as the flag; or ``recorded``, for the update that a GPU records, here without
    graphs.
    """
    is_recorded = grad_sync == "recorded"
    task = get_task(TASK)
    num_envs = NUM_ENVS // context.world_size
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": num_envs}, "seed": 7}, "env")
    seed_everything(7)
    env = task.make(env_cfg, context=context)
    cfg = merge(RslRlCfg(), AGENT, "agent")
    learner = RslRlLearner(env, cfg, context, grad_sync="library" if is_recorded else grad_sync)
    seed_everything(7 + context.rank)
    initial = torch.cat((env.sim.data.qpos, env.sim.data.qvel), dim=1).clone()
    # Half of the environments reach the time limit within the rollout.
    limit = env.max_episode_length
    lengths = env.random.stream("lengths").integers(limit - 2 * NUM_STEPS, limit)
    env.episode_length_buf = lengths

    algorithm = learner.alg
    if is_recorded:
        algorithm.recorded = RecordedUpdate(algorithm)
        algorithm.recorded.recording.give_up()
    distribution = algorithm.get_policy().distribution
    noise = env.random.stream("test")

    def sample() -> torch.Tensor:
        mean = distribution.mean
        if len(mean) != num_envs or torch.is_grad_enabled():
            return mean  # the update samples too, and ignores it
        return mean + distribution.std * noise.normal(0.0, 1.0, mean.shape[1])

    distribution.sample = sample
    # private: rsl_rl keeps the critic in it, without DDP
    models = torch.nn.ModuleDict(
        {"actor": algorithm.get_policy(), "critic": algorithm._raw_critic}  # private: see above
    )
    gradients = captured(algorithm.optimizer, models)
    num_time_outs = [0]
    process = algorithm.process_env_step

    def count(obs: Any, rewards: Any, dones: Any, extras: dict[str, Any]) -> None:
        num_time_outs[0] += int(extras["time_outs"].sum())
        process(obs, rewards, dones, extras)

    algorithm.process_env_step = count
    learner.start(1)
    with capturable_on_a_cpu() if is_recorded else contextlib.nullcontext():
        learner.iterate(1, lambda rewards, ended, info: None)
    env.close()
    return {
        "initial": initial,
        "num_time_outs": num_time_outs[0],
        "gradients": gradients,
        "buffers": {name: buffer.clone() for name, buffer in models.named_buffers()},
    }
