"""The first update of rl_games' PPO on Cartpole, with actions drawn by the environments.

In training, each rank samples actions with its own generator. Here the samples come from a stream
of the environments, so that how these are spread over ranks changes nothing but rounding.
"""

from __future__ import annotations

from typing import Any

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import seed_everything
from envlab.registry import get_task, load_agent_values
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rl_games.learner import RlGamesLearner
from tests.small_runs import env_of

NUM_STEPS = 16
NUM_ENVS = 1024
TASK = "Isaac-Cartpole-v0"


def agent_cfg(num_envs: int) -> RlGamesCfg:
    """Return the task's configuration, for one step of the optimizer on all data."""
    values = load_agent_values(get_task(TASK), "rl_games")
    assert values is not None
    config = {
        "horizon_length": NUM_STEPS,
        "minibatch_size": NUM_STEPS * num_envs,
        "mini_epochs": 1,
        "truncate_grads": False,
        "normalize_advantage": True,
        "value_bootstrap": True,
        "normalize_input": True,
        "normalize_value": True,
    }
    return merge(RlGamesCfg().with_task_values(values), {"params": {"config": config}}, "agent")


def first_update(context: DistributedContext, grad_sync: str = "ddp") -> dict[str, Any]:
    """Return initial states, gradients before the optimizer's first step, normalisers after it."""
    num_envs = NUM_ENVS // context.world_size
    seed_everything(7)
    env = env_of(TASK, num_envs, context, seed=7)
    learner = RlGamesLearner(env, agent_cfg(num_envs), context, grad_sync=grad_sync)
    initial = torch.cat((env.sim.data.qpos, env.sim.data.qvel), dim=1).clone()
    # Half of the environments reach the time limit within the rollout.
    limit = env.max_episode_length
    env.episode_length_buf = env.random.stream("lengths").integers(limit - 2 * NUM_STEPS, limit)
    noise = env.random.stream("test")
    agent = learner.agent
    act, step, model = agent.get_action_values, agent.env_step, agent.model
    gradients: dict[str, torch.Tensor] = {}
    num_time_outs = [0]

    def act_by_environment(obs: dict[str, Any]) -> dict[str, Any]:
        result = act(obs)
        mean, std = result["mus"], result["sigmas"]
        result["actions"] = mean + std * noise.normal(0.0, 1.0, mean.shape[1])
        result["neglogpacs"] = model.neglogp(result["actions"], mean, std, std.log())
        return result

    def step_and_count(actions: torch.Tensor) -> Any:
        obs, rewards, ended, infos = step(actions)
        num_time_outs[0] += int(infos["time_outs"].sum())
        return obs, rewards, ended, infos

    def capture() -> None:
        for name, parameter in _module(model).named_parameters():
            assert parameter.grad is not None
            gradients[name] = parameter.grad.clone()

    agent.get_action_values = act_by_environment
    agent.env_step = step_and_count
    agent.optimizer.step = capture
    learner.start(1)
    learner.iterate(1, lambda rewards, ended, info: None)
    env.close()
    return {
        "initial": initial,
        "num_time_outs": num_time_outs[0],
        "gradients": gradients,
        "buffers": {name: buffer.clone() for name, buffer in _module(model).named_buffers()},
    }


def _module(model: Any) -> torch.nn.Module:
    """Return a model without DDP around it, so that names are the same."""
    return model.module if hasattr(model, "reducer") else model
