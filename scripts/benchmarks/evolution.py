"""Steps per second of a population's DQN, and of AgileRL's, on one core.

Example::

    python scripts/benchmarks/evolution.py --folder .venv-agilerl

Both run the loop of AgileRL's tutorial on eight environments of Gymnasium's LunarLander-v3, which
one process steps one after another: act in all, remember, and learn once from a batch of 128.
Networks are the same, three layers of 64 units without normalisation, and then each library's
default: two layers here, four with layer normalisation there. Blocks take turns, so that a busy
machine is busy for both; figures are medians over blocks.

AgileRL needs about 120 packages, among them others than envlab does, so it gets a virtual
environment of its own in ``--folder``, which is made on first use (2.3 GB) with this one's torch.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from envlab.cli import guarded
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.rl.command.arguments import ArgumentParser
from envlab.rl.command.evaluation import write_json
from envlab.rl.evolution.population import make_population
from envlab.rl.evolution.replay import ReplayMemory
from envlab.rl.skrl.env import final_values

WORKER = Path(__file__).with_name("evolution_agilerl.py")
NUM_ENVS, UNITS, BATCH_SIZE, MEMORY_SIZE, EPSILON = 8, 64, 128, 10_000, 0.1
REQUIREMENTS = ["agilerl==2.58.0", "peft==0.19.1", "gymnasium[box2d]"]
"""AgileRL imports peft, but does not ask for it."""

Block = Callable[[int], tuple[float, float]]
"""What takes so many steps in all environments, and returns its seconds and its CPU seconds."""


def main(arguments: Sequence[str]) -> int:
    """Print a table and the ratios."""
    parser = ArgumentParser(prog="evolution", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="AgileRL's virtual environment")
    parser.add_argument("--blocks", type=int, default=9, metavar="N", help="of each (default 9)")
    parser.add_argument("--steps", type=int, default=400, metavar="N", help="of a block")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    flags = parser.parse_args(list(arguments))
    if min(flags.blocks, flags.steps) < 1:
        raise ConfigurationError(
            f"--blocks is {flags.blocks} and --steps is {flags.steps}, but both must be at least 1."
        )
    python = agilerl_python(flags.folder.absolute())
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    report: dict[str, dict[str, float]] = {}
    for network, units in (("3 x 64", UNITS), ("its default", 0)):
        times = measure(python, units, flags.blocks, flags.steps)
        for name, found in times.items():
            frames = flags.steps * NUM_ENVS
            report[f"{name}, {network}"] = {
                "steps_per_s": statistics.median(frames / wall for wall, _ in found),
                "steps_per_cpu_s": statistics.median(frames / cpu for _, cpu in found),
            }
    print("| DQN and network | steps/s | steps per CPU second |\n|---|---|---|")
    for name, row in report.items():
        print(f"| {name} | {row['steps_per_s']:,.0f} | {row['steps_per_cpu_s']:,.0f} |")
    if flags.json is not None:
        write_json(flags.json, report)
    return 0


def measure(
    python: Path, units: int, blocks: int, steps: int
) -> dict[str, list[tuple[float, float]]]:
    """Return seconds and CPU seconds of each block, by contender."""
    words = [str(python), str(WORKER), *map(str, (NUM_ENVS, units, BATCH_SIZE, MEMORY_SIZE))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        contenders = {"envlab": envlab_block(units), "AgileRL": worker_block(process)}
        for block in contenders.values():
            block(steps)  # fills the memory, and makes what is only made once
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for _ in range(blocks):
            for name, block in contenders.items():
                times[name].append(block(steps))
    return times


def agilerl_python(folder: Path) -> Path:
    """Return the Python of AgileRL's virtual environment, which is made where it is missing.

    Raises:
        ConfigurationError: If AgileRL cannot be installed.
    """
    python, done = folder / "bin/python", folder / "agilerl_is_installed"
    if done.is_file():
        return python
    pins = [f"torch=={torch.__version__.partition('+')[0]}", *REQUIREMENTS]
    install = [str(python), "-m", "pip", "install", "--quiet", *pins]
    for words in ([sys.executable, "-m", "venv", str(folder)], install):
        if subprocess.run(words, check=False).returncode != 0:
            raise ConfigurationError(
                f"AgileRL could not be installed into {folder}: '{' '.join(words)}' failed. Its "
                "own message is above; remove the folder before another attempt."
            )
    done.touch()
    return python


def worker_block(process: subprocess.Popen[str]) -> Block:
    """Return a block of AgileRL's process."""
    assert process.stdin is not None
    assert process.stdout is not None
    commands, answers = process.stdin, process.stdout

    def run(steps: int) -> tuple[float, float]:
        print(steps, file=commands, flush=True)
        line = answers.readline()
        if not line:
            raise ConfigurationError("AgileRL's process has ended; its own message is above.")
        wall, cpu = map(float, line.split())
        return wall, cpu

    return run


def envlab_block(units: int) -> Block:
    """Return a block of a population's member, in this process; with no units, by default."""
    task = get_task("gym:LunarLander-v3")
    cfg = merge(load_env_cfg(task), {"scene": {"num_envs": NUM_ENVS}, "seed": 1}, "env")
    env = task.make(cfg, context=DistributedContext())
    memory = ReplayMemory(MEMORY_SIZE, NUM_ENVS, env.device, None)
    (member,) = make_population(
        "dqn",
        env,
        memory,
        population_size=1,
        network={"hidden_dims": [units] * 3} if units else None,
        settings={"batch_size": BATCH_SIZE},
    )
    agent, obs = member.agent, env.reset()[0]["policy"]

    def run(steps: int) -> tuple[float, float]:
        nonlocal obs
        start, cpu_start = time.perf_counter(), time.process_time()
        for _ in range(steps):
            actions = agent.get_action(obs, EPSILON)
            seen, rewards, terminated, _, info = env.step(actions)
            memory.add_samples(
                observations=obs,
                actions=actions,
                rewards=rewards[:, None],
                next_observations=final_values(seen, info)["policy"],
                terminated=terminated[:, None],
            )
            if len(memory) >= BATCH_SIZE:
                agent.update(timestep=0, timesteps=1)
            obs = seen["policy"]
        return time.perf_counter() - start, time.process_time() - cpu_start

    return run


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
