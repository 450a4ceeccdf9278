"""Run directories as the library adapters leave them, without training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_run(
    root: Path,
    returns: Sequence[float | None],
    *,
    name: str = "run",
    library: str = "rsl_rl",
    size: int = 1,
    seed: int = 0,
    frames_per_iteration: int = 100,
    seconds_per_iteration: float = 2.0,
    first_iteration: int = 1,
    end: str = "",
    **manifest: Any,
) -> Path:
    """Write a run and return its directory.

    Args:
        root: Folder of all runs.
        returns: Mean return of each iteration.
        name: The run's folder.
        library: RL library.
        size: Number of processes.
        seed: Base seed.
        frames_per_iteration: Global frames.
        seconds_per_iteration: Wall time.
        first_iteration: Number of the first iteration; more than 1 in a resumed run.
        end: Appended to ``metrics.jsonl``.
        manifest: Further values of the manifest.
    """
    directory = root / library / "cartpole" / name
    directory.mkdir(parents=True)
    values = {
        "task": "Isaac-Cartpole-v0",
        "library": library,
        "created_at": f"2030-01-01T00:00:{len(list(root.rglob('run.json'))):02}+00:00",
        "world": {"size": size},
        "global_num_envs": 64,
        "seed": seed,
        "resumed_from": None,
        "status": "finished",
        **manifest,
    }
    (directory / "run.json").write_text(json.dumps(values))
    lines = [
        json.dumps(
            {
                "iteration": iteration,
                "frames": iteration * frames_per_iteration,
                "wall_s": iteration * seconds_per_iteration,
                "mean_return": value,
                "losses": {"value": 1.0 / iteration},
                "episode": {"Episode_Reward/alive": 0.5},
            }
        )
        for iteration, value in enumerate(returns, start=first_iteration)
    ]
    (directory / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines) + end)
    return directory
