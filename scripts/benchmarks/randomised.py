"""The cost of history, delay and randomisation: Go2 with all three, compared with registered Go2.

Each term is observed five steps long and up to two steps late, and fifteen properties of the robot
are drawn for every episode. Both are timed alternately in one process, in blocks of steps; figures
are medians over blocks. Example::

    python scripts/benchmarks/randomised.py --num_envs 1024
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import fields, make_dataclass
from typing import Any

import torch

from envlab.arguments import positive
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.envs import SceneEntityCfg, VectorEnv, mdp
from envlab.envs.managers import EventTermCfg
from envlab.envs.terms import at_reset
from envlab.registry import get_task, load_env_cfg

TASK = "Isaac-Velocity-Flat-Unitree-Go2-v0"


def randomisations() -> dict[str, EventTermCfg]:
    """Return fifteen, each of another property."""
    dr, some = mdp.dr, (0.9, 1.1)
    base = SceneEntityCfg("robot", body_names="base")
    feet = SceneEntityCfg("robot", geom_names=".*")
    return {
        "friction": at_reset(dr.geom_friction, ranges=(0.6, 1.2), asset_cfg=feet),
        "mass": at_reset(dr.body_mass, ranges=some),
        "inertia": at_reset(dr.pseudo_inertia, alpha_range=(-0.05, 0.05), asset_cfg=base),
        "com": at_reset(dr.body_com_offset, ranges=(-0.01, 0.01), operation="add", asset_cfg=base),
        "place": at_reset(dr.body_pos, ranges=(-0.002, 0.002), operation="add"),
        "gains": at_reset(dr.pd_gains, kp_range=some, kd_range=some),
        "efforts": at_reset(dr.effort_limits, effort_limit_range=some),
        "armature": at_reset(dr.joint_armature, ranges=some, operation="scale"),
        "damping": at_reset(dr.joint_damping, ranges=(0.0, 0.1)),
        "dry_friction": at_reset(dr.joint_friction, ranges=(0.0, 0.1)),
        "springs": at_reset(dr.joint_stiffness, ranges=(0.0, 0.1)),
        "limits": at_reset(dr.joint_limits, ranges=(-0.02, 0.02), operation="add"),
        "encoders": at_reset(dr.encoder_bias, bias_range=(-0.01, 0.01)),
        "feet": at_reset(dr.geom_pos, ranges=(-0.002, 0.002), operation="add", asset_cfg=feet),
        "gravity": at_reset(
            mdp.randomize_physics_scene_gravity,
            gravity_distribution_params=((0.0, 0.0, -0.2), (0.0, 0.0, 0.2)),
            operation="add",
        ),
    }


def randomised(cfg: Any) -> Any:
    """Return the task with all of it."""
    cfg = copy.deepcopy(cfg)
    events = {one.name: getattr(cfg.events, one.name) for one in fields(cfg.events)}
    events |= randomisations()
    cfg.events = make_dataclass("Randomised", events)(**events)
    for one in fields(cfg.observations.policy):
        term = getattr(cfg.observations.policy, one.name)
        if hasattr(term, "delay_max_lag"):
            term.history_length, term.delay_max_lag = 5, 2
    return cfg


def main(arguments: Sequence[str]) -> int:
    """Print both rates and their ratio."""
    parser = argparse.ArgumentParser(prog="randomised", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--num_envs", type=positive, default=1024, metavar="N")
    parser.add_argument("--blocks", type=positive, default=15, metavar="N", help="of each")
    parser.add_argument("--steps", type=positive, default=10, metavar="N", help="of a block")
    parser.add_argument("--cpu_time", action="store_true", help="count processor time")
    flags = parser.parse_args(arguments)
    clock = time.process_time if flags.cpu_time else time.perf_counter
    task, context = get_task(TASK), DistributedContext.single("cpu")
    torch.set_num_threads(context.num_threads)
    plain = merge(load_env_cfg(task), {"scene": {"num_envs": flags.num_envs}}, "env")
    envs: dict[str, VectorEnv] = {
        name: task.make(cfg, context=context, seed=0)
        for name, cfg in {"plain": plain, "randomised": randomised(plain)}.items()
    }
    for env in envs.values():  # episodes end at different times, as in training
        env.reset()
        env.episode_length_buf = env.random.stream("benchmark").integers(0, env.max_episode_length)
    actions = torch.rand(flags.num_envs, 12) * 2 - 1
    rates: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(flags.blocks + 1):
        for name, env in envs.items():
            start = clock()
            for _ in range(flags.steps):
                env.step(actions)
            rates[name].append(flags.steps * flags.num_envs / (clock() - start))
    medians = {name: statistics.median(values[1:]) for name, values in rates.items()}
    for name, rate in medians.items():
        print(f"{name:>10} {rate:>10,.0f} environment steps/s")
    ratios = sorted(
        one / other for one, other in zip(rates["randomised"], rates["plain"], strict=True)
    )
    print(
        f"ratio of medians {medians['randomised'] / medians['plain']:.2f}, of blocks "
        f"{ratios[1]:.2f} to {ratios[-2]:.2f}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
