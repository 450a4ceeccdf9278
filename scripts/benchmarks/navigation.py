"""Frames per CPU second of navigation: environment steps, the bare kernels, and Miniworld.

Example::

    python scripts/benchmarks/navigation.py --num_envs 64 1024 --sizes 64 128 224

The bare kernels draw the same images of the same environments into preallocated memory. Blocks of
all contenders alternate, so that load on the machine affects all. It also prints the costs of
houses and of their distance fields, and an environment's memory.

Miniworld draws colours alone, in one room or four, with OpenGL on the processor. It is not part of
envlab, and needs other versions of packages than envlab does; so it has its own Python::

    python -m venv miniworld; miniworld/bin/pip install miniworld==2.1.0
    python scripts/benchmarks/navigation.py --miniworld miniworld/bin/python

It also needs Debian's libegl1, libgl1 and libglu1-mesa.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from envlab.arguments import ArgumentParser
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.training.evaluation import write_json
from envlab_navigation.geodesics import distance_fields
from envlab_navigation.house import make_house
from envlab_navigation.nav_cfg import ACTIONS, NavEnvCfg
from envlab_navigation.nav_env import NavEnv

CHANCES = {"MoveAhead": 0.6, "RotateLeft": 0.15, "RotateRight": 0.15, "End": 0.02}
"""Probabilities of the actions; the others share the rest."""
KINDS = {"depth": ["depth"], "rgb": ["rgb"], "all": ["depth", "rgb", "labels"]}
"""Kinds of images, by name."""


Contenders = dict[str, Callable[[], float]]
"""Functions that run a block, and return its frames per CPU second."""


def main(arguments: Sequence[str]) -> int:
    """Print a table, and the cost of a house."""
    parser = ArgumentParser(prog="navigation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--num_envs", type=int, nargs="+", default=[64, 1024], metavar="N")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64], metavar="PIXELS")
    parser.add_argument("--images", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--blocks", type=int, default=5, metavar="N", help="of each (default 5)")
    parser.add_argument("--block_s", type=float, default=1.0, metavar="S", help="CPU s of a block")
    parser.add_argument("--miniworld", type=Path, metavar="PYTHON", help="a Python that has it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    flags = parser.parse_args(list(arguments))
    if flags.blocks < 1:
        raise ConfigurationError(f"--blocks is {flags.blocks}, but must be at least 1.")
    house_ms, fields_ms = _house_ms()
    print(f"A house is made in {house_ms:.1f} ms, and its distances in {fields_ms:.1f} ms.")
    if flags.miniworld is None:
        print("Miniworld is left out; --miniworld gives a Python that has it.")
    heads = ("step", "bare", "share", "Miniworld", "bytes")
    print(f"{'images':8}{'size':>6}{'envs':>6}" + "".join(f"{head:>10}" for head in heads))
    results = []
    for kinds, size, num_envs in itertools.product(flags.images, flags.sizes, flags.num_envs):
        row = measure(KINDS[kinds], size, num_envs, flags)
        results.append({"images": kinds, "size": size, "num_envs": num_envs, **row})
        rates = f"{row['step']:10,.0f}{row['bare']:10,.0f}{row['share']:10.2f}"
        rates += f"{row['miniworld']:10,.0f}" if "miniworld" in row else f"{'-':>10}"
        print(f"{kinds:8}{size:6}{num_envs:6}{rates}{row['bytes']:10,.0f}", flush=True)
    print("step, bare, Miniworld: frames per CPU second; bytes: of an environment, but its images.")
    if flags.json is not None:
        write_json(flags.json, {"results": results})
    return 0


def measure(
    kinds: list[str], size: int, num_envs: int, flags: argparse.Namespace
) -> dict[str, float]:
    """Return medians of frames per CPU second, the median share, and the memory."""
    fields: dict[str, Any] = {
        "goal": "object",
        "images": kinds,
        "actions": list(ACTIONS),
        "houses": {"num_houses": 64},
        "camera": {"width": size, "height": size},
    }
    cfg = merge(NavEnvCfg(), fields, "env")
    env = NavEnv(cfg, context=DistributedContext(num_threads=1), num_envs=num_envs, seed=0)
    actions = _actions(num_envs)
    images, everything = env.camera.new_images(), torch.ones(num_envs, dtype=torch.bool)
    contenders: Contenders = {
        "step": lambda: num_envs * _per_cpu_s(lambda: env.step(next(actions)), flags.block_s),
        "bare": lambda: (
            num_envs * _per_cpu_s(lambda: env.camera.draw(images, everything), flags.block_s)
        ),
    }
    child = _start_miniworld(flags, size) if kinds == ["rgb"] else None
    if child is not None:
        contenders["miniworld"] = lambda: _ask(child)
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(flags.blocks):
        for name, run_block in contenders.items():
            rates[name].append(run_block())
    if child is not None:
        child.terminate()
        child.wait()
    size_of = _bytes_per_env(env)
    env.close()
    shares = [step / bare for step, bare in zip(rates["step"], rates["bare"], strict=True)]
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return medians | {"share": statistics.median(shares), "bytes": size_of}


def _start_miniworld(flags: argparse.Namespace, size: int) -> subprocess.Popen[str] | None:
    """Return a process that runs a block of Miniworld for each line; None without a Python."""
    if flags.miniworld is None:
        return None
    worker = Path(__file__).with_name("navigation_miniworld.py")
    command = [str(flags.miniworld), str(worker), str(size), str(flags.block_s)]
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise ConfigurationError(
            f"--miniworld is {flags.miniworld}, which cannot be run: {error.strerror or error}. "
            "Give the Python of an environment that has Miniworld."
        ) from error


def _ask(child: subprocess.Popen[str]) -> float:
    """Return the frames per CPU second of a block in the child."""
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # the child has ended, and does not answer
        print(file=child.stdin, flush=True)
    answer = child.stdout.readline()
    if not answer:
        raise ConfigurationError(
            "Miniworld ended early; its output is above. Fix that, or leave --miniworld out."
        )
    return float(answer)


def _bytes_per_env(env: NavEnv) -> float:
    """Return the bytes of an environment, without its images and the houses."""
    kept = [*vars(env.agents).values(), *vars(env.camera).values(), *vars(env).values()]
    kept += [tensor for _, tensors in env.camera._scratches for tensor in tensors.values()]
    sizes = {
        one.data_ptr(): one.numel() * one.element_size()
        for one in kept
        if isinstance(one, torch.Tensor)
    }
    return sum(sizes.values()) / env.num_envs


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
    """Return the CPU time of making a house, and of its distances."""
    distance_fields(make_house("test", 0))  # compiles
    start = time.process_time()
    houses = [make_house("test", index) for index in range(count)]
    made = time.process_time()
    for house in houses:
        distance_fields(house)
    return 1000 * (made - start) / count, 1000 * (time.process_time() - made) / count


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
