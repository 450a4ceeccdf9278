"""Environments of tasks, by their ids and overrides as on the command line, put into a state."""

from __future__ import annotations

import math
from typing import Any

import torch

from envlab import registry
from envlab.config import compose
from envlab.distributed.context import DistributedContext


def make(
    task_id: str,
    *overrides: str,
    num_envs: int = 3,
    seed: int = 0,
    num_threads: int = 1,
    context: DistributedContext | None = None,
    **fields: Any,
) -> Any:
    """Return an environment of a task; of any type, as tests ask their task's own methods."""
    task = registry.get_task(task_id)
    cfg = compose({"env": registry.load_env_cfg(task)}, list(overrides))["env"]
    for name, value in fields.items():
        setattr(cfg, name, value)
    context = context or DistributedContext(num_threads=num_threads)
    return task.make(cfg, context=context, num_envs=num_envs, seed=seed)


def put(env: Any, qpos: Any, qvel: Any = None) -> None:
    """Put all environments into one state, or each into that of its row; at rest by default."""
    state = [qpos] if qvel is None else [qpos, qvel]
    rows = [torch.as_tensor(values, dtype=torch.float32) for values in state]
    everyone = torch.ones(env.num_envs, dtype=torch.bool)
    env.sim.reset(everyone, *(values.expand(env.num_envs, -1) for values in rows))


def about_x(angle: float) -> tuple[float, float, float, float]:
    """Return the quaternion of a turn about x by an angle in rad."""
    return (math.cos(angle / 2.0), math.sin(angle / 2.0), 0.0, 0.0)
