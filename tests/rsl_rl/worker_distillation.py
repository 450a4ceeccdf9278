"""The work of each of two ranks for the tests of distillation, in one launch.

Usage: worker_distillation.py FOLDER FLAGS...; it trains in FOLDER with the flags, once per
``--grad_sync``, and writes ``first_update_rank<i>.pt`` and ``<grad_sync>_rank<i>.pt``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging
from envlab.distributed.seeding import seed_everything
from envlab.registry import get_task, load_env_cfg
from envlab.rsl_rl.cfg import DistillationCfg
from envlab.rsl_rl.distillation import DistributedDistillation
from envlab.rsl_rl.learner import RslRlLearner
from tests.rsl_rl.first_update import captured
from tests.rsl_rl.worker_pair import train_by_both

NUM_ENVS = 256
MEMORY = {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 8, "rnn_num_layers": 1}
AGENT = {
    "num_steps_per_env": 8,
    "student": {**MEMORY, "hidden_dims": [16], "obs_normalization": True},
    "teacher": {"hidden_dims": [16]},
    "algorithm": {"num_learning_epochs": 1, "gradient_length": 8},
}


@dataclass(frozen=True)
class Lesson:
    """A student's task, and the settings it is made with."""

    task: str = "Isaac-Cartpole-v0"
    num_envs: int = NUM_ENVS
    """Of all ranks."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the task."""
    agent: Mapping[str, Any] = field(default_factory=lambda: AGENT)


def make_learner(
    context: DistributedContext, lesson: Lesson, grad_sync: str = "ddp"
) -> RslRlLearner:
    """Return a learner on this rank's part of the environments, whose teacher is random."""
    task = get_task(lesson.task)
    share = {"scene": {"num_envs": lesson.num_envs // context.world_size}, "seed": 7}
    env_cfg = merge(merge(load_env_cfg(task), lesson.env, "env"), share, "env")
    seed_everything(7)
    env = task.make(env_cfg, context=context)
    cfg = merge(DistillationCfg(), lesson.agent, "agent")
    return RslRlLearner(env, cfg, context, grad_sync=grad_sync)


def first_update(
    context: DistributedContext, grad_sync: str = "ddp", lesson: Lesson | None = None
) -> dict[str, Any]:
    """Return gradients of the first step, and normalisers after it.

    The student's exploration noise belongs to the environments, as in ``first_update.py``.
    """
    learner = make_learner(context, lesson or Lesson(), grad_sync)
    env = learner.env.env
    limit = env.max_episode_length  # some episodes end in the rollout
    env.episode_length_buf = env.random.stream("lengths").integers(limit - 20, limit)
    algorithm = learner.alg
    student = algorithm.get_policy()
    distribution, noise = student.distribution, env.random.stream("test")
    distribution.sample = lambda: (
        distribution.mean + distribution.std * noise.normal(0.0, 1.0, distribution.mean.shape[1])
    )
    gradients = captured(algorithm.optimizer, student, of_all=False)
    learner.start(1)
    learner.iterate(1, lambda rewards, ended, info: None)
    env.close()
    return {"gradients": gradients, "buffers": dict(student.named_buffers())}


def main() -> None:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    updates = {"pooled": first_update(context), "library": first_update(context, "library")}
    with mock.patch.object(DistributedDistillation, "reduce_parameters", return_value=None):
        updates["local"] = first_update(context, "library")
    torch.save(updates, folder / f"first_update_rank{context.rank}.pt")
    train_by_both(context, folder, arguments, DistributedDistillation)
    context.close()


if __name__ == "__main__":
    main()
