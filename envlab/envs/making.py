"""``envlab.make``: the environments of a task by its id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envlab.config import compose, merge
from envlab.registry import get_task, load_env_cfg


def make(
    task_id: str,
    *,
    num_envs: int | None = None,
    overrides: Sequence[str] = (),
    device: str | None = None,
    seed: int | None = None,
    render_mode: str | None = "rgb_array",
) -> Any:
    """Return the environments of a task, such as ``envlab.make("Isaac-Ant-v0", num_envs=64)``.

    Args:
        task_id: As ``envlab list`` shows it, or ``gym:<id>``; ``-v0`` may be left out.
        num_envs: Number of environments; None: the task's number, which is for a GPU.
        overrides: Changes of the configuration, as on the command line: ``["env.decimation=2"]``.
        device: ``cpu``, ``cuda`` or ``cuda:<index>``; None: a GPU if there is one.
        seed: Base seed; None: a random one.
        render_mode: ``rgb_array``: ``render()`` makes pictures, without a window; None: none.

    Raises:
        EnvlabError: If there is no such task, or a value is not valid.
    """
    task = get_task(task_id)
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    if num_envs is not None:  # other sizes of a task may depend on it
        cfg = merge(cfg, {"scene": {"num_envs": num_envs}}, "env")
    return task.make(cfg, device=device, seed=seed, render_mode=render_mode)
