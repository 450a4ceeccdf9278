r"""Compare the steps per second of Isaac Lab's task, on our simulator, and of our task of that id.

Processes of the two alternate; each one's import and compilation are not counted::

    ISAACLAB_PATH=FOLDER OMP_NUM_THREADS=2 python scripts/benchmarks/isaac_lab.py \
        --task=Isaac-Velocity-Flat-Unitree-Go2-v0
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded

LOOP = """
import time, torch
torch.set_num_threads(2)
actions = torch.zeros({num_envs}, env.action_space.shape[-1])
env.reset()
for _ in range(10):
    env.step(actions.normal_())
start = time.perf_counter()
for _ in range({num_steps}):
    env.step(actions.normal_())
print("RATE", {num_envs} * {num_steps} / (time.perf_counter() - start))
"""
OURS = """
import gymnasium, envlab.registry
envlab.registry.discover()
env = gymnasium.make_vec("{task}", num_envs={num_envs})
"""
THEIRS = """
from isaaclab.app import AppLauncher
import gymnasium, isaaclab_tasks
from isaaclab_tasks.utils import parse_env_cfg
cfg = parse_env_cfg("{task}", device="cpu", num_envs={num_envs})
env = gymnasium.make("{task}", cfg=cfg)
"""


def main(arguments: Sequence[str]) -> int:
    """Print the rates of both, and their ratio; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="Isaac-Velocity-Flat-Unitree-Go2-v0")
    parser.add_argument("--num_envs", type=int, default=1024)
    parser.add_argument("--num_steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args(arguments)
    kinds = {"ours": (OURS, []), "Isaac Lab's": (THEIRS, ["-m", "envlab_isaaclab"])}
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(flags.repeats):
            for kind, (text, launcher) in kinds.items():
                script = Path(folder) / "steps.py"
                script.write_text((text + LOOP).format(**vars(flags)), encoding="utf-8")
                command = [sys.executable, *launcher, str(script)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                line = next(line for line in done.stdout.splitlines() if line.startswith("RATE "))
                rates[kind].append(float(line.removeprefix("RATE ")))
    for kind, values in rates.items():
        print(f"{kind}: {statistics.median(values):,.0f} steps a second ({len(values)} runs)")
    ratios = [theirs / ours for ours, theirs in zip(*rates.values(), strict=True)]
    print(f"ratio: {statistics.median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
