"""The first update of PPO on JAX, with random actions that belong to the environments.

See :mod:`tests.rl.rsl_rl.first_update`: how samples are spread over ranks changes nothing but
rounding.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.progress import Progress
from envlab.distributed.seeding import seed_everything
from envlab.registry import get_task, load_env_cfg
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.jax.arrays import to_jax, tree_state
from envlab.rl.skrl.jax.learner import JaxLearner, make_learner
from envlab.rl.skrl.jax.ranks import AveragingOptimizer
from tests.rl.rsl_rl.first_update import NUM_STEPS, TASK

NUM_ENVS = 256

AGENT = {
    "seed": 7,
    "agent": {
        "rollouts": NUM_STEPS,
        "learning_epochs": 1,
        "mini_batches": 1,
        "observation_preprocessor": "RunningStandardScaler",
        "observation_preprocessor_kwargs": {},
        "value_preprocessor": "RunningStandardScaler",
        "value_preprocessor_kwargs": {},
        "grad_norm_clip": 0.0,
        "time_limit_bootstrap": True,
    },
}


class Recorder:
    """Stands in for an optimizer of skrl, and keeps the gradients that it is given."""

    def __init__(self, found: dict[str, torch.Tensor], name: str) -> None:
        self._found, self._name = found, name

    def step(self, *, grad: Any, **_: Any) -> Recorder:
        for name, values in tree_state(grad).items():
            self._found[f"{self._name}.{name}"] = values
        return self


class CountingPulse(Progress):
    """Counts its marks."""

    num_marks = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "marked_at":
            self.num_marks += 1


def first_update(context: DistributedContext) -> dict[str, Any]:
    """Return initial states, gradients over all ranks, this rank's own, and normalisers."""
    task = get_task(TASK)
    num_envs = NUM_ENVS // context.world_size
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": num_envs}, "seed": 7}, "env")
    seed_everything(7)
    env = task.make(env_cfg, context=context)
    learner = make_learner(
        env, SkrlCfg.of("ppo", "jax").with_task_values(AGENT).resolved(), context
    )
    seed_everything(7 + context.rank)
    initial = torch.cat((env.sim.data.qpos, env.sim.data.qvel), dim=1).clone()
    # Half of the environments reach the time limit within the rollout.
    limit = env.max_episode_length
    env.episode_length_buf = env.random.stream("lengths").integers(limit - 2 * NUM_STEPS, limit)
    act_by_environment(learner, env)
    gradients: dict[str, torch.Tensor] = {}
    for name in ("policy", "value"):
        recorder = Recorder(gradients, name)
        mine = getattr(learner.agent, f"{name}_optimizer")
        if isinstance(mine, AveragingOptimizer):
            mine.optimizer = recorder
        else:
            setattr(learner.agent, f"{name}_optimizer", recorder)
    learner.agent.enable_training_mode(True)
    num_time_outs = rollout(learner)
    context.progress.__class__ = CountingPulse
    learner.agent.update(timestep=NUM_STEPS - 1, timesteps=NUM_STEPS)
    num_marks = vars(context.progress)["num_marks"]
    env.close()
    scalers = {
        f"{name}.{key}": values
        for name, arrays in learner.model_state()["arrays"].items()
        if "preprocessor" in name
        for key, values in arrays.items()
    }
    return {
        "initial": initial,
        "num_time_outs": num_time_outs,
        "num_marks": num_marks,
        "gradients": gradients,
        "scalers": scalers,
    }


def act_by_environment(learner: JaxLearner, env: Any) -> None:
    """Have the policy draw from a stream of the environments."""
    policy, noise = learner.agent.policy, env.random.stream("test")
    act = policy.act

    def act_with(inputs: dict[str, Any], *, role: str = "", params: Any = None) -> Any:
        if params is not None or "taken_actions" in inputs:
            return act(inputs, role=role, params=params)
        _, outputs = act(dict(inputs), role=role)
        mean, std = outputs["mean_actions"], outputs["stddev"]
        actions = mean + std * to_jax(noise.normal(0.0, 1.0, mean.shape[1]))
        return actions, act({**inputs, "taken_actions": actions}, role=role)[1]

    policy.act = act_with


def rollout(learner: JaxLearner) -> int:
    """Fill the memory; return how many time limits were reached."""
    agent, num_time_outs = learner.agent, 0
    observations, states = learner.env.observe()
    for timestep in range(NUM_STEPS):
        when = {"timestep": timestep, "timesteps": NUM_STEPS}
        actions, _ = agent.act(observations, states, **when)
        step = learner.env.advance(actions)
        num_time_outs += int(jnp.sum(step.truncated))
        agent.record_transition(
            observations=observations,
            states=states,
            actions=actions,
            rewards=step.rewards,
            next_observations=step.final_observations,
            next_states=step.final_states,
            terminated=step.terminated,
            truncated=step.truncated,
            infos={},
            **when,
        )
        observations, states = step.observations, step.states
    return num_time_outs
