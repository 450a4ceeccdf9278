"""Steps per second between envlab and Gymnasium, in both directions.

Gymnasium's environments, by envlab's bridge and by Gymnasium's own vectors; and a task of envlab's
by its id in numpy and in torch, beside Gymnasium's ``AsyncVectorEnv`` of an environment like it::

    python scripts/benchmarks/gym_bridge.py --num_envs 16 --ids CartPole-v1,HalfCheetah-v5
    python scripts/benchmarks/gym_bridge.py --num_envs 1024 --task Isaac-Ant-v0 --ids Ant-v5
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs.gym_bridge import GymEnvCfg
from envlab.registry import discover, get_task

IDS = "CartPole-v1,LunarLander-v3,HalfCheetah-v5"
Step = Callable[[], Any]
Way = tuple[Step, Step, int]
"""A step, the end, and the number of environments."""


def main() -> int:
    """Print a table; the ways are interleaved, so that load on the machine affects all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ids", default=IDS, help=f"Gymnasium ids (default: {IDS})")
    parser.add_argument("--task", help="a task of envlab's, to compare its ids in numpy and torch")
    parser.add_argument("--num_envs", type=int, default=16, help="environments (default: 16)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    flags = parser.parse_args()
    num_cores = len(os.sched_getaffinity(0))
    print(f"Environment steps per second, {flags.num_envs} environments, {num_cores} cores:")
    for name in flags.ids.split(","):
        if flags.task:
            ways = task_ways(flags.task, name, flags.num_envs)
        else:
            ways = bridge_ways(name, flags.num_envs, num_cores)
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(flags.rounds):
            for way, (step, _, num_envs) in ways.items():
                rates[way].append(num_envs * _steps_per_s(step, flags.seconds))
        first = statistics.median(rates[next(iter(ways))])
        for way, (_, close, _) in ways.items():
            median = statistics.median(rates[way])
            label = f"{flags.task or name:24}{way:32}"
            print(f"{label}{median:10,.0f}{median / first:7.2f}", flush=True)
            close()
    return 0


def bridge_ways(name: str, num_envs: int, num_cores: int) -> dict[str, Way]:
    """Return the ways to step an environment of Gymnasium's."""
    kinds = gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv
    return {
        "envlab, this process": bridge(name, num_envs, 0),
        f"envlab, {num_cores} workers": bridge(name, num_envs, num_cores),
        **{kind.__name__: vector(name, num_envs, kind) for kind in kinds},
    }


def task_ways(task: str, name: str, num_envs: int) -> dict[str, Way]:
    """Return the ways to step a task of envlab's, and the vectors of an environment like it."""
    discover()
    kind = gymnasium.vector.AsyncVectorEnv
    return {
        "torch": made(task, num_envs),
        "numpy, resets in the same step": made(
            f"numpy/{task}", num_envs, autoreset_mode="SameStep"
        ),
        "numpy, resets in the next step": made(f"numpy/{task}", num_envs),
        **{f"AsyncVectorEnv of {n} {name}": vector(name, n, kind) for n in (2, 16, 64)},
    }


def made(task: str, num_envs: int, **kwargs: Any) -> Way:
    """Return steps of a task by its id, with the same actions in -1 to 1 for all."""
    env = gymnasium.make_vec(task, num_envs=num_envs, device="cpu", seed=0, **kwargs)
    env.reset(seed=0)
    random = np.random.default_rng(0)
    size = (num_envs, *env.single_action_space.shape)  # type: ignore[misc]
    actions: list[Any] = [random.uniform(-1, 1, size).astype(np.float32) for _ in range(64)]
    if not task.startswith("numpy/"):
        actions = [torch.as_tensor(each) for each in actions]
    return _cycling(env.step, actions), env.close, num_envs


def bridge(name: str, num_envs: int, num_workers: int) -> Way:
    """Return steps of envlab's environment with random actions."""
    cfg = GymEnvCfg(num_workers=num_workers)
    context = DistributedContext.single("cpu")
    env = get_task(f"gym:{name}").make(cfg, context=context, num_envs=num_envs, seed=0)
    actions = [torch.as_tensor(each) for each in _actions(env)]
    return _cycling(env.step, actions), env.close, num_envs


def vector(name: str, num_envs: int, kind: Any) -> Way:
    """Return the same of one of Gymnasium's vectors, as fast as its options make it."""
    makers = [lambda: gymnasium.make(name, disable_env_checker=True)] * num_envs
    env = kind(makers, copy=False, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    return _cycling(env.step, _actions(env)), env.close, num_envs


def _actions(env: Any) -> list[Any]:
    """Return the same random actions for every way: a step's cost depends on them."""
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(64)]


def _cycling(step: Callable[[Any], Any], actions: list[Any]) -> Step:
    state = {"next": 0}

    def advance() -> None:
        state["next"] = (state["next"] + 1) % len(actions)
        step(actions[state["next"]])

    return advance


def _steps_per_s(step: Step, seconds: float) -> float:
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        step()
        count += 1
    return count / (time.perf_counter() - start)


if __name__ == "__main__":
    raise SystemExit(main())
