"""Learners of rsl_rl whose rollouts and updates are ours, for tests and their workers."""

from __future__ import annotations

import copy
from typing import Any

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_agent_values
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.collection import RecordedRollout
from envlab.rsl_rl.learner import RslRlLearner
from envlab.rsl_rl.recorded_update import RecordedUpdate
from envlab.sim.recordable import RepeatedOperations
from envlab.state import restore, save
from tests.graphs import record_steps
from tests.tasks.making import make

CARTPOLE, GO2 = "Isaac-Cartpole-v0", "Isaac-Velocity-Flat-Unitree-Go2-v0"
SMALL: dict[str, Any] = {
    "num_steps_per_env": 8,
    "actor": {"hidden_dims": [16], "obs_normalization": True},
    "critic": {"hidden_dims": [16], "obs_normalization": True},
    "algorithm": {"num_learning_epochs": 2, "num_mini_batches": 2},
}
ALONE = DistributedContext(num_threads=1)


def learner_of(
    task: str = CARTPOLE,
    kind: str = "library",
    context: DistributedContext = ALONE,
    **fields: Any,
) -> RslRlLearner:
    """Return a learner: the library's own, or with ours, ``unrecorded`` or by ``graphs``."""
    env = make(task, num_envs=4, seed=1, context=context, **fields)
    cfg = merge(RslRlCfg(), load_agent_values(get_task(task), "rsl_rl"), "agent")
    cfg = merge(cfg, SMALL, "agent")
    torch.manual_seed(0)
    learner = RslRlLearner(env, cfg, context, grad_sync="library")
    if kind == "library":
        return learner
    alg, graphs = learner.alg, lambda: RepeatedOperations
    alg.recorded = RecordedUpdate(alg, graphs, is_required=True)
    alg.recorded.readings = learner.readings
    learner.recorded_rollout = RecordedRollout(alg, graphs, is_required=True)
    if kind == "graphs":
        record_steps(env)
        return learner
    for recording in (alg.recorded.recording, *learner.recorded_rollout.recordings.values()):
        recording.give_up()
    return learner


def ignore(*_: Any) -> None:
    """Count no step."""


def saved_parts(learner: RslRlLearner) -> tuple[Any, ...]:
    """Return copies of all that a resume needs."""
    env = learner.env.unwrapped
    return copy.deepcopy((learner.model_state(), save(learner), save(env), torch.get_rng_state()))


def resume(learner: RslRlLearner, parts: tuple[Any, ...]) -> None:
    """Restore what :func:`saved_parts` returned."""
    model, own, env, generator = parts
    learner.load_models({"model": model})
    restore(learner, own, torch.device("cpu"))
    restore(learner.env.unwrapped, env, torch.device("cpu"))
    torch.set_rng_state(generator)


def losses_of(learner: RslRlLearner, first: int, last: int) -> list[Any]:
    """Return the losses of iterations."""
    return [learner.iterate(number, ignore).losses for number in range(first, last + 1)]
