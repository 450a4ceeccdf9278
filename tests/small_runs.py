"""Environments and trainings of a library, as small as its tests need them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_env_cfg
from envlab.training.launch import train
from tests.learner_contract import timeless_digests
from tests.run.test_directory import timeless
from tests.trained import checkpoint_of, only_run

CARTPOLE = "Isaac-Cartpole-v0"


def env_of(
    task_id: str = CARTPOLE,
    num_envs: int = 4,
    context: DistributedContext | None = None,
    seed: int = 1,
) -> Any:
    """Return the environments of a task, on the CPU."""
    task, context = get_task(task_id), context or DistributedContext.single("cpu")
    return task.make(load_env_cfg(task), context=context, num_envs=num_envs, seed=seed)


def train_in(library: str, folder: Path, *words: str) -> int:
    """Run a library's train.py in this process and in a folder; return its exit code."""
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        return train(library, words)


def check_same_end(resumed: Path, whole: Path, *, resumed_at: int, iteration: int) -> None:
    """Require that a resumed run has ended bit for bit as the unbroken one."""
    then, now = (timeless_digests(checkpoint_of(run, iteration)) for run in (whole, resumed))
    assert then == now
    assert timeless(resumed) == timeless(whole)[resumed_at:]


def check_resumes_exactly(library: str, folder: Path, *words: str) -> Path:
    """Train four iterations, and the last two of them again, in a run that is returned."""
    assert train_in(library, folder / "whole", *words, "--max_iterations=4") == 0
    whole = only_run(folder / "whole")
    resume = ["--max_iterations=4", "--resume", f"--checkpoint={whole}/checkpoints/model_2.pt"]
    assert train_in(library, folder / "resumed", *words, *resume) == 0
    resumed = only_run(folder / "resumed")
    check_same_end(resumed, whole, resumed_at=2, iteration=4)
    return resumed
