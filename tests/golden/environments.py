"""Observations and rewards of tasks in a hundred steps of fixed actions, and how to record them.

``values/environments`` has for each archetype, and for each task with its own code, its frozen
configuration, ``<task>.yaml``, which changes of defaults do not affect, and ``<task>.json``:
digests of all states, observations and rewards by kind of processor, and the numbers of the first
steps with the tolerance for other kinds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from envlab import registry
from envlab.config import read_yaml, write_yaml
from envlab.distributed.audit import digest
from envlab.distributed.context import DistributedContext
from tests.archetypes import ARCHETYPES, OWN_CODE
from tests.golden.kind import kind_of_processor
from tests.golden.libraries import difference
from tests.tasks import rollouts

FOLDER = Path(__file__).with_name("values") / "environments"
NUM_ENVS = 4
NUM_STEPS = 100
STEPS_PER_DIGEST = 10
EPISODE_STEPS = 40
FIRST_STEPS = 6
"""Rows of numbers that are kept; row 0 is before the first step."""
MOST_NUMBERS = 16
"""Numbers that are kept of a row of an environment, evenly spread."""
LEAST_TOLERANCE = 1e-4


def freeze(name: str) -> None:
    """Write the configuration of a task with short episodes."""
    cfg = registry.load_env_cfg(registry.get_task(name))
    if hasattr(cfg, "houses"):
        cfg.houses.num_houses, cfg.camera.width, cfg.camera.height = 2, 16, 16
        cfg.max_episode_length = EPISODE_STEPS
    else:
        cfg.episode_length_s = EPISODE_STEPS * cfg.step_dt
    write_yaml(FOLDER / f"{name}.yaml", cfg)


def roll_out(name: str) -> dict[str, torch.Tensor]:
    """Return states, observations and results of a task, ``(NUM_STEPS + 1, NUM_ENVS, ...)``."""
    task = registry.get_task(name)
    cfg = read_yaml(FOLDER / f"{name}.yaml", registry.load_env_cfg(task))
    if hasattr(cfg, "houses"):
        cfg.houses.cache_dir = rollouts.HOUSES.name
    context = DistributedContext(num_threads=1)
    env = task.make(cfg, context=context, num_envs=NUM_ENVS, seed=1)
    rows = rollouts.record(env, rollouts.draw_actions(env, NUM_STEPS, NUM_ENVS))
    env.close()
    return rows


def digests_of(rows: dict[str, torch.Tensor]) -> list[str]:
    """Return a digest of each ten steps, so that a difference is found where it begins."""
    bounds = range(1, NUM_STEPS, STEPS_PER_DIGEST)
    return [
        hashlib.sha256(
            "".join(
                digest(rows[name][start : start + STEPS_PER_DIGEST]) for name in sorted(rows)
            ).encode()
        ).hexdigest()[:16]
        for start in bounds
    ]


def numbers_of(rows: dict[str, torch.Tensor]) -> dict[str, list[list[float]]]:
    """Return numbers of the first steps by name, rounded to seven digits."""
    found = {}
    for name, values in rows.items():
        first = values[:FIRST_STEPS, :2].double().flatten(1)
        stride = max(1, math.ceil(first.shape[1] / (2 * MOST_NUMBERS)))
        found[name] = [[float(f"{x:.7g}") for x in row] for row in first[:, ::stride].tolist()]
    return found


def read(name: str) -> dict[str, Any]:
    """Return what was recorded of a task; empty without a recording."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def record() -> None:
    """Record all tasks, and print how far they are from what was recorded."""
    kind = kind_of_processor()
    for name in (*ARCHETYPES, *OWN_CODE):
        if not (FOLDER / f"{name}.yaml").exists():
            freeze(name)
        old, rows = read(name), roll_out(name)
        numbers = numbers_of(rows)
        apart = difference(old["numbers"], numbers) if old else 0.0
        digests, had = digests_of(rows), old.get("digests", {}).get(kind)
        has_changed = had not in (None, digests)
        is_same = bool(old) and apart <= old["tolerance"] and not has_changed
        found = {**(old["digests"] if is_same else {}), kind: digests}
        if not is_same:
            old = {"tolerance": _tolerance(name, numbers), "numbers": numbers}
        text = json.dumps({**old, "digests": found}, indent=None)
        (FOLDER / f"{name}.json").write_text(text.replace(', "', ',\n"') + "\n")
        later = ", and others later" if has_changed else ""
        print(f"{name}: largest difference of the first steps {apart:.3g}{later}")


def _tolerance(name: str, numbers: dict[str, Any]) -> float:
    """Return ten times what torch's kernels for the plainest processors change, or the least."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.json"
        code = (
            "import json, pathlib, sys; from tests.golden.environments import *;"
            "pathlib.Path(sys.argv[2]).write_text(json.dumps(numbers_of(roll_out(sys.argv[1]))))"
        )
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default"}
        subprocess.run([sys.executable, "-c", code, name, path], check=True, env=environment)
        return max(LEAST_TOLERANCE, 10.0 * difference(numbers, json.loads(path.read_text())))
