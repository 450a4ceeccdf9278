"""Steps per second of Gymnasium's environments: envlab's bridge against Gymnasium's vectors.

Example::

    python scripts/benchmarks/gym_bridge.py --num_envs 16 --ids CartPole-v1,HalfCheetah-v5
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs.gym_bridge import GymEnvCfg
from envlab.registry import get_task

IDS = "CartPole-v1,LunarLander-v3,HalfCheetah-v5"
Step = Callable[[], Any]


def main() -> int:
    """Print a table; the ways are interleaved, so that load on the machine affects all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ids", default=IDS, help=f"Gymnasium ids (default: {IDS})")
    parser.add_argument("--num_envs", type=int, default=16, help="environments (default: 16)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    flags = parser.parse_args()
    num_cores = len(os.sched_getaffinity(0))
    print(f"Environment steps per second, {flags.num_envs} environments, {num_cores} cores:")
    for name in flags.ids.split(","):
        ways = {
            "envlab, this process": bridge(name, flags.num_envs, 0),
            f"envlab, {num_cores} workers": bridge(name, flags.num_envs, num_cores),
            "SyncVectorEnv": vector(name, flags.num_envs, gymnasium.vector.SyncVectorEnv),
            "AsyncVectorEnv": vector(name, flags.num_envs, gymnasium.vector.AsyncVectorEnv),
        }
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(flags.rounds):
            for way, (step, _) in ways.items():
                rates[way].append(flags.num_envs * _steps_per_s(step, flags.seconds))
        for way, (_, close) in ways.items():
            print(f"{name:24}{way:24}{statistics.median(rates[way]):10,.0f}", flush=True)
            close()
    return 0


def bridge(name: str, num_envs: int, num_workers: int) -> tuple[Step, Step]:
    """Return a step of envlab's environment with random actions, and its end."""
    cfg = GymEnvCfg(num_workers=num_workers)
    context = DistributedContext.single("cpu")
    env = get_task(f"gym:{name}").make(cfg, context=context, num_envs=num_envs, seed=0)
    return _cycling(env.step, [torch.as_tensor(each) for each in _actions(env)]), env.close


def vector(name: str, num_envs: int, kind: Any) -> tuple[Step, Step]:
    """Return the same of one of Gymnasium's vectors, as fast as its options make it."""
    makers = [lambda: gymnasium.make(name, disable_env_checker=True)] * num_envs
    env = kind(makers, copy=False, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    return _cycling(env.step, _actions(env)), env.close


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
