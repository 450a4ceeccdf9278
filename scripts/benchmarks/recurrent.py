"""Frames per CPU second of DD-PPO's networks on one thread, in bfloat16 and in float32.

    python scripts/benchmarks/recurrent.py [--task ID] [--num_envs 64] [--turns 5]

Variants take turns in one process, each with a rollout and an update of 2 epochs of 4 minibatches,
so that noise on the machine affects all; each figure is a variant's best turn, without the first.
"""

from __future__ import annotations

import argparse
import time

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.registry import get_task, load_env_cfg
from envlab_navigation.ddppo.build import model_of, pipeline_of
from envlab_navigation.ddppo.cfg import DdppoCfg
from envlab_navigation.ddppo.learner import DdppoLearner
from envlab_navigation.ddppo.preemption import Preemption

NUM_STEPS = 32
NETWORKS = {
    "channels 16, 32, 32; GRU 128": {"channels": [16, 32, 32], "hidden_dim": 128},
    "channels 16, 32, 32; GRU 512": {"channels": [16, 32, 32], "hidden_dim": 512},
    "channels 32, 64, 32; GRU 512": {"channels": [32, 64, 32], "hidden_dim": 512},
}
PRECISIONS = ("bfloat16", "float32")


def main() -> None:
    """Take turns, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="Nav-PointNav-Depth-v0")
    parser.add_argument("--num_envs", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    context, task = DistributedContext.single("cpu"), get_task(flags.task)
    changes = {"scene": {"num_envs": flags.num_envs}, "seed": 0}
    env = task.make(merge(load_env_cfg(task), changes, "env"), context=context, render_mode=None)
    learners = {
        (name, precision): make_learner(env, context, name, precision)
        for name in NETWORKS
        for precision in PRECISIONS
    }
    best = dict.fromkeys(learners, 0.0)
    for turn in range(flags.turns):
        for key, learner in learners.items():
            start = time.process_time()
            frames = learner.iterate(turn + 1, lambda *ended: None).frames
            if turn:
                best[key] = max(best[key], frames / (time.process_time() - start))
    print("| network | bfloat16 | float32 | ratio |\n|---|---|---|---|")
    for name in NETWORKS:
        narrow, wide = (best[name, precision] for precision in PRECISIONS)
        print(f"| {name} | {narrow:,.0f} | {wide:,.0f} | {narrow / wide:.2f} |")


def make_learner(
    env: BatchedEnv, context: DistributedContext, name: str, precision: str
) -> DdppoLearner:
    """Return a learner of one network; all act in the same environments."""
    changes = {
        "num_steps_per_env": NUM_STEPS,
        "precision": precision,
        "model": NETWORKS[name],
        "algorithm": {"num_learning_epochs": 2, "num_mini_batches": 4},
    }
    cfg = merge(DdppoCfg(), changes, "agent")
    learner = DdppoLearner(
        env,
        cfg,
        context,
        model=model_of(cfg, env, context),
        pipeline=pipeline_of(cfg),
        preemption=Preemption(context),
    )
    learner.start(1)
    return learner


if __name__ == "__main__":
    main()
