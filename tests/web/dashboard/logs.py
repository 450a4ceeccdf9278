"""A realistic folder of runs for pages and pictures, written in a moment."""

from __future__ import annotations

import json
import math
import os
import random
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

COMMAND = (
    "python /home/ada/envlab/scripts/reinforcement_learning/{library}/train.py --task={task} "
    "--num_envs=1024 --distributed --seed={seed} agent.max_iterations=300"
)
LOG = """Writing to logs/{library}/{experiment}/{name}
Rank 0 of 2: cpu, gloo, 1024 environments each, seed {seed}.
Iteration 50 audited: the ranks agree.
"""


def write_metrics(
    directory: Path, first: int, last: int, *, seed: int = 0, speed: float = 0.02, best: float = 5.0
) -> None:
    """Append a learning run's records of these iterations, both included."""
    noise = random.Random(1000 * seed + first)
    lines = []
    for number in range(first, last + 1):
        share = 1.0 - math.exp(-speed * number)
        record = {
            "iteration": number,
            "frames": 32_768 * number,
            "wall_s": 2.1 * number,
            "fps": 15_600.0 + noise.gauss(0.0, 250.0),
            "mean_return": best * share + noise.gauss(0.0, 0.05 * best),
            "mean_episode_length": 300.0 * share + noise.gauss(0.0, 5.0),
            "learning_rate": 1e-3 * math.exp(-number / 300),
            "losses": {"value": 0.4 / number**0.5, "surrogate": -0.01},
            "episode": {"Episode_Reward/alive": share},
        }
        lines.append(json.dumps(record) + "\n")
    with (directory / "metrics.jsonl").open("a") as file:
        file.writelines(lines)


def write_heartbeats(directory: Path, iteration: int, **of_rank_1: Any) -> None:
    """Write the present heartbeats of two ranks."""
    both = {"detail": "", "iteration": iteration, "frames": 32_768 * iteration, "device": "cpu"}
    both |= {"gpu_memory_mb": 0, "process": "running"}
    both |= {"seconds_since_progress": 0.1, "seconds_since_heard": 0.4}
    first = {"rank": 0, "host": "node-a", "pid": 4711, "phase": "collect"}
    second = {"rank": 1, "host": "node-b", "pid": 4712, "phase": "learn"}
    first |= both | {"cpu": 0.97, "memory_mb": 812}
    second |= both | {"cpu": 0.95, "memory_mb": 819} | of_rank_1
    values = {"time": "2026-11-22T10:00:00+00:00", "timeout_s": 120.0, "ranks": [first, second]}
    path = directory / "heartbeats.json"
    path.with_suffix(".tmp").write_text(json.dumps(values))
    path.with_suffix(".tmp").replace(path)


def write_run(
    root: Path,
    task: str,
    *,
    library: str = "rsl_rl",
    name: str = "2026-11-22_09-30-00",
    iterations: int = 250,
    seed: int = 0,
    size: int = 2,
    status: str = "finished",
    age_s: float = 0.0,
    best: float = 5.0,
    params: str = "algorithm:\n  learning_rate: 0.001\n",
    **manifest: Any,
) -> Path:
    """Write a run and return its directory."""
    experiment = task.removeprefix("Isaac-").removesuffix("-v0").lower().replace("-", "_")
    directory = root / library / experiment / name
    (directory / "params").mkdir(parents=True)
    created_at = datetime.now().astimezone() - timedelta(seconds=age_s + 2.1 * iterations)
    values = {
        "version": 1,
        "task": task,
        "library": library,
        "created_at": created_at.isoformat(timespec="seconds"),
        "command": COMMAND.format(library=library, task=task, seed=seed),
        "versions": {"envlab": "0.1.0", "torch": "2.13.0", "mujoco": "4.0.0"},
        "git": {"commit": "82b0d79f6a76bae06ee997ce744e6f252dfeed7d", "dirty": False},
        "world": {"size": size, "local_size": size, "device": "cpu", "backend": "gloo"},
        "num_envs": 1024,
        "global_num_envs": 1024 * size,
        "seed": seed,
        "total_iterations": iterations if status == "finished" else 300,
        "resumed_from": None,
        "status": status,
        **({"audit": {"iteration": iterations // 50 * 50, "is_passed": True}} if size > 1 else {}),
        **({"algorithm": "PPO", "ml_framework": "torch"} if library == "skrl" else {}),
        **manifest,
    }
    (directory / "run.json").write_text(json.dumps(values))
    (directory / "params" / "agent.yaml").write_text(params)
    (directory / "params" / "env.yaml").write_text("decimation: 4\n")
    write_metrics(directory, 1, iterations, seed=seed, best=best)
    log = LOG.format(library=library, experiment=experiment, name=name, seed=seed)
    (directory / "log.txt").write_text(log)
    folder = directory / "checkpoints"
    folder.mkdir()
    for number in (*range(50, iterations + 1, 100), iterations):
        (folder / f"model_{number}.pt").write_bytes(bytes(400_000))
    if size > 1:
        write_heartbeats(directory, iterations)
    for path in (*directory.iterdir(), *directory.rglob("*.pt")):
        os.utime(path, (time.time() - age_s, time.time() - age_s))
    return directory


def write_logs(root: Path) -> Path:
    """Write a folder of runs; return the run that is still running."""
    ant, skrls = "Isaac-Ant-v0", {"library": "skrl", "params": "agent:\n  learning_rate: 0.0005\n"}
    for seed in range(4):
        name = f"2026-11-22_0{seed}-15-00"
        write_run(root, ant, name=name, seed=seed, age_s=7200 * (5 - seed), best=62.0)
        name = f"2026-11-22_0{seed}-45-00_ppo_torch"
        write_run(root, ant, name=name, seed=seed, age_s=7000 * (5 - seed), best=55.0, **skrls)
    write_run(root, "Isaac-Cartpole-v0", library="rl_games", size=1, age_s=86400 * 3, best=4.9)
    rank = "Rank 1 (host node-b, pid 4712)"
    error = f"{rank} is stopped (by SIGSTOP), last seen 11 s ago in learn of iteration 40."
    failed = {"iterations": 40, "status": "failed", "age_s": 3000, "best": 1.2, "error": error}
    write_run(root, "Isaac-Reach-Franka-v0", **failed)
    write_run(root, "Isaac-Velocity-Flat-H1-v0", iterations=120, status="interrupted", age_s=9000)
    return write_run(
        root, "Isaac-Velocity-Flat-Unitree-Go2-v0", status="running", iterations=180, best=24.0
    )
