"""Environments of tasks, by their ids and overrides as on the command line."""

from __future__ import annotations

from typing import Any

from envlab import registry
from envlab.config import compose
from envlab.distributed.context import DistributedContext


def make(
    task_id: str, *overrides: str, num_envs: int = 3, seed: int = 0, num_threads: int = 1
) -> Any:
    """Return an environment of a task; of any type, as tests ask their task's own methods."""
    task = registry.get_task(task_id)
    cfg = compose({"env": registry.load_env_cfg(task)}, list(overrides))["env"]
    context = DistributedContext(num_threads=num_threads)
    return task.make(cfg, context=context, num_envs=num_envs, seed=seed)
