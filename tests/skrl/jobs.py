"""The work of ranks for the tests of skrl, on either framework."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.seeding import seed_everything
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import Transition
from envlab.skrl.learner import SkrlLearner
from envlab.training.launch import train_plan
from tests.small_runs import env_of
from tests.trained import session_of

NUM_STEPS = 16
TASK = "Isaac-Cartpole-v0"
UPDATE: dict[str, Any] = {
    "seed": 7,
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

Tensors = Callable[[SkrlLearner], torch.Tensor]
"""Returns a tensor of a learner's memory."""


def local_moments(values: torch.Tensor, _: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the moments of an unpooled normalisation."""
    return values.mean(), values.std()


def train(
    context: DistributedContext, folder: Path, arguments: Sequence[str], observations: Tensors
) -> dict[str, Any]:
    """Train in a folder; return this rank's final state and the observations of its rollouts."""
    folder.mkdir(exist_ok=True)
    context.gather(None)  # the folder exists
    os.chdir(folder)
    learners: list[SkrlLearner] = []
    seen: list[torch.Tensor] = []
    iterate = SkrlLearner.iterate

    def watched(learner: SkrlLearner, *args: Any) -> Any:
        iteration = iterate(learner, *args)
        learners.append(learner)
        if learner.cfg.algorithm == "ppo":
            seen.append(observations(learner).flatten(0, 1).clone())
        return iteration

    with mock.patch.object(SkrlLearner, "iterate", watched):
        train_plan(session_of("skrl", [*arguments, "--distributed"]), context, InterruptFlag())
    learner = learners[-1]
    models = learner.agent.models
    first = next(iter((models["cart"] if learner.cfg.is_multi_agent else models).values()))
    return {
        "obs": seen,
        "model": learner.model_state(),
        "learning_rate": learner.learning_rate(),
        "wraps": type(first).__name__,
        "tracked": sum(map(len, learner.agent.tracking_data.values())),
    }


def step_to_a_time_limit(learner: SkrlLearner) -> tuple[Transition, Any]:
    """Make a step of four environments in which 1 and 3 end; return it and prior observations."""
    limit = learner.env.env.max_episode_length
    learner.env.env.episode_length_buf = torch.tensor([0, limit - 1, 5, limit - 1])
    learner.start(1)
    observations, states = learner.env.observe()
    when = {"timestep": 0, "timesteps": 100}
    steps: list[Transition] = []
    advance = learner.env.advance

    def watched(actions: Any) -> Transition:
        steps.append(advance(actions))
        return steps[0]

    with mock.patch.object(learner.env, "advance", watched):
        # private: a step of skrl's trainer, which has no other door
        learner._interact(observations, states, when, lambda *_: None)
    return steps[0], observations


def first_update(
    context: DistributedContext,
    num_envs: int,
    ml_framework: str,
    make: Callable[[Any, SkrlCfg, DistributedContext], SkrlLearner],
    watching: Callable[
        [SkrlLearner, Any, dict[str, torch.Tensor]], contextlib.AbstractContextManager[Any]
    ],
) -> tuple[dict[str, Any], SkrlLearner]:
    """Make the first update of PPO, with random actions that belong to the environments.

    In training, each rank samples actions with its own generator. Here the samples come from a
    stream of the environments, so that how these are spread over ranks changes nothing but
    rounding.

    Args:
        context: The process's context.
        num_envs: Environments of all ranks.
        ml_framework: ``torch`` or ``jax``.
        make: Makes the learner.
        watching: Has a learner sample from a stream, and fills in its gradients by name.

    Returns:
        Initial states and gradients, and the learner after it.
    """
    seed_everything(7)
    env = env_of(TASK, num_envs // context.world_size, context, seed=7)
    cfg = SkrlCfg.of("ppo", ml_framework).with_task_values(UPDATE).resolved()
    learner = make(env, cfg, context)
    seed_everything(7 + context.rank)
    initial = torch.cat((env.sim.data.qpos, env.sim.data.qvel), dim=1).clone()
    # Half of the environments reach the time limit within the rollout.
    limit = env.max_episode_length
    env.episode_length_buf = env.random.stream("lengths").integers(limit - 2 * NUM_STEPS, limit)
    gradients: dict[str, torch.Tensor] = {}
    with watching(learner, env.random.stream("test"), gradients):
        learner.start(1)
        learner.iterate(1, lambda *_: None)
    env.close()
    return {"initial": initial, "gradients": gradients}, learner
