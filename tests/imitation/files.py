"""Files of demonstrations for tests, and learners of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from envlab.distributed.context import DistributedContext
from envlab.envs.dataset_file import DatasetWriter
from envlab.registry import get_task
from envlab_imitation.cfg import BcCfg
from envlab_imitation.demonstrations import read_demonstrations
from envlab_imitation.learner import BcLearner
from tests.small_runs import env_of

TASK = "Isaac-Reach-Franka-IK-Abs-v0"
NUM_OBS, NUM_ACTIONS = 32, 7
LENGTHS = (9, 14, 5, 11, 8)
NUM_STEPS = sum(LENGTHS)


def write_file(
    path: Path, task: str = TASK, lengths: tuple[int, ...] = LENGTHS, **changed: Any
) -> Path:
    """Write demonstrations with random numbers, without the arrays that are changed to None."""
    drawn = np.random.default_rng(0)
    num = sum(lengths)
    steps = {
        "actions": drawn.normal(size=(num, NUM_ACTIONS)).astype(np.float32),
        "obs/policy": drawn.normal(size=(num, NUM_OBS)).astype(np.float32),
    }
    attributes = {
        "num_samples": np.array(lengths),
        "success": np.ones(len(lengths), dtype=bool),
    }
    for key, values in changed.items():
        holder = attributes if key in attributes else steps
        holder[key.replace("__", "/")] = values
        if values is None:
            del holder[key.replace("__", "/")]
    writer = DatasetWriter(path, task)
    writer.write(steps, {}, attributes)
    writer.close()
    return path


def learner_of(path: Path, context: DistributedContext, **settings: Any) -> BcLearner:
    """Return the learner of a rank, with the same seed on all."""
    cfg = BcCfg(dataset=str(path), **settings)
    env = env_of(TASK, num_envs=2, context=context)
    demonstrations = read_demonstrations(cfg, get_task(TASK), env, context)
    return BcLearner(env, cfg, demonstrations, context)
