"""Values that the ranks of a run must agree in, and values that must differ between them.

Both are only read. No generator is advanced, so a run is the same however often it is audited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.distributed.audit import audit
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import generator_identities
from envlab.envs import BatchedEnv
from envlab.learner import Learner
from envlab.state import shared


def audit_run(
    learner: Learner,
    env: BatchedEnv,
    context: DistributedContext,
    counters: Mapping[str, Any],
    *,
    iteration: int,
) -> None:
    """Compare the ranks of a run; every rank must call this.

    Args:
        learner: The library's algorithm.
        env: This rank's environments.
        context: The process's context.
        counters: The run's own counters, see :func:`shared_values`.
        iteration: Iterations done, for the message.

    Raises:
        RankDivergenceError: On every rank alike, naming the values, the ranks and the iteration.
    """
    if context.is_distributed:
        shared = shared_values(learner, env, context, counters)
        audit(context, shared, own_values(learner, env), iteration=iteration)


def shared_values(
    learner: Learner, env: BatchedEnv, context: DistributedContext, counters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values that must be bit-identical on all ranks.

    Args:
        learner: Its networks, optimizers, normalisers, schedulers and counters, and what it
            declares as shared.
        env: What it declares as shared, such as its seed, its counters and curricula. State that
            environments acquire, such as terrain levels, is each environment's own.
        context: The process's context.
        counters: The run's iteration, frames, budget, learning rate, mean returns.
    """
    # Counters and curricula follow the steps, of which ranks may make different numbers.
    alike: dict[str, Any] = {"environments": {"seed": env.random.base_seed}}
    if learner.steps_alike:
        alike = {"environments": shared(env), "learner": shared(learner)}
    return {
        **learner.model_state(),
        **alike,
        "run": dict(counters),
        "world": {
            "environments per process": env.num_envs,
            # Equal on all ranks if every rank's environments follow those of the previous rank.
            "first environment of rank 0": int(env.random.env_ids[0]) - context.rank * env.num_envs,
        },
    }


def own_values(learner: Learner, env: BatchedEnv) -> dict[str, Any]:
    """Return the values that no two ranks may share: streams of environments and of actions."""
    return {
        "environment streams": env.random.fingerprint(),
        "generators": generator_identities(),
        "action noise": learner.noise_keys(),
    }
