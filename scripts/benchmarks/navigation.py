"""Frames per CPU second of navigation: environment steps beside the bare kernels.

Example::

    python scripts/benchmarks/navigation.py --num_envs 64 1024 --sizes 64 128

The bare kernels draw the same images of the same environments into memory that is kept. Blocks of
both alternate, so that a busy machine is busy for both. What the fields of houses cost is printed,
too.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from envlab.cli import guarded
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.nav.geodesics import distance_fields
from envlab.nav.house import make_house
from envlab.nav.nav_cfg import ACTIONS, NavEnvCfg
from envlab.nav.nav_env import NavEnv
from envlab.rl.command.arguments import ArgumentParser

CHANCES = {"MoveAhead": 0.6, "RotateLeft": 0.15, "RotateRight": 0.15, "End": 0.02}
"""Of the actions; those that are not named share the rest."""
KINDS = {"depth": ["depth"], "rgb": ["rgb"], "all": ["depth", "rgb", "labels"]}
"""Images that are asked for, by name."""


def main(arguments: Sequence[str]) -> int:
    """Print a table, and what a house costs."""
    parser = ArgumentParser(prog="navigation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--num_envs", type=int, nargs="+", default=[64, 1024], metavar="N")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64], metavar="PIXELS")
    parser.add_argument("--images", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--blocks", type=int, default=5, metavar="N", help="of each (default 5)")
    parser.add_argument("--block_s", type=float, default=1.0, metavar="S", help="CPU s of a block")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    flags = parser.parse_args(list(arguments))
    house_ms, fields_ms = _house_ms()
    print(f"A house is made in {house_ms:.1f} ms, and its distances in {fields_ms:.1f} ms.")
    print(f"{'images':8}{'size':>6}{'envs':>6}{'step':>10}{'bare':>10}{'share':>8}  frames/CPU s")
    results = []
    for kinds, size, num_envs in itertools.product(flags.images, flags.sizes, flags.num_envs):
        row = measure(KINDS[kinds], size, num_envs, flags.blocks, flags.block_s)
        results.append({"images": kinds, "size": size, "num_envs": num_envs, **row})
        rates = f"{row['step']:10,.0f}{row['bare']:10,.0f}{row['share']:8.2f}"
        print(f"{kinds:8}{size:6}{num_envs:6}{rates}", flush=True)
    if flags.json is not None:
        flags.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def measure(
    kinds: list[str], size: int, num_envs: int, blocks: int, block_s: float
) -> dict[str, float]:
    """Return frames per CPU second of a step and of the kernels, and the median share."""
    fields: dict[str, Any] = {
        "goal": "object",
        "images": kinds,
        "actions": list(ACTIONS),
        "houses": {"num_houses": 64},
        "camera": {"width": size, "height": size},
    }
    cfg = merge(NavEnvCfg(), fields, "env")
    context = DistributedContext(num_threads=1)
    env = NavEnv(cfg, context=context, num_envs=num_envs, seed=0)
    actions = _actions(num_envs)
    images, everything = env.camera.new_images(), torch.ones(num_envs, dtype=torch.bool)
    ways: dict[str, Callable[[], Any]] = {
        "step": lambda: env.step(next(actions)),
        "bare": lambda: env.camera.draw(images, everything),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(blocks):
        for name, way in ways.items():
            rates[name].append(num_envs * _per_cpu_s(way, block_s))
    env.close()
    shares = [step / bare for step, bare in zip(rates["step"], rates["bare"], strict=True)]
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return medians | {"share": statistics.median(shares)}


def _actions(num_envs: int) -> itertools.cycle[torch.Tensor]:
    rest = (1.0 - sum(CHANCES.values())) / (len(ACTIONS) - len(CHANCES))
    chances = torch.tensor([CHANCES.get(name, rest) for name in ACTIONS])
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.multinomial(chances, num_envs, True, generator=generator) for _ in range(64)]
    return itertools.cycle(action.unsqueeze(1) for action in drawn)


def _per_cpu_s(way: Callable[[], Any], seconds: float) -> float:
    way()
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        way()
        count += 1
    return count / (time.process_time() - start)


def _house_ms(count: int = 20) -> tuple[float, float]:
    """Return the CPU time that a house takes, and its distances."""
    distance_fields(make_house("test", 0))  # compiles
    start = time.process_time()
    houses = [make_house("test", index) for index in range(count)]
    made = time.process_time()
    for house in houses:
        distance_fields(house)
    return 1000 * (made - start) / count, 1000 * (time.process_time() - made) / count


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
