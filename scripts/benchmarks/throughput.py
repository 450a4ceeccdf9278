"""Environment steps per second of a task, and of the bare backend stepping the same model.

Both are timed alternately in one process, in blocks of steps, so that noise affects both alike;
figures are medians over blocks. On a CPU the bare backend is ``mujoco.batch.Batch`` with as many
threads, fed random controls, without observations, rewards or resets; on a GPU it is the captured
step of ``mujoco_warp``; with ``env.sim.backend=analytic`` it is that backend's step. Examples::

    python scripts/benchmarks/throughput.py --task Isaac-Cartpole-v0 --num_envs 64 1024 4096
    python scripts/benchmarks/throughput.py env.sim.backend=analytic --num_envs 4096
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from mujoco import batch

from envlab.arguments import positive
from envlab.config import compose, merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.envs import VectorEnv
from envlab.registry import Task, get_task, load_env_cfg
from envlab.sim.analytic_backend import AnalyticSimulation
from envlab.sim.simulation import copy_model, create_simulation
from envlab.training.arguments import TrainingParser


def main(arguments: Sequence[str]) -> int:
    """Print the table, and write JSON where asked."""
    parser = TrainingParser(prog="throughput", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", default="Isaac-Cartpole-v0", metavar="ID", help="task id")
    parser.add_argument(
        "--num_envs", type=positive, nargs="+", default=[64, 1024, 4096], metavar="N", help="sizes"
    )
    parser.add_argument("--device", metavar="DEVICE", help="cuda if there is one, else cpu")
    parser.add_argument("--blocks", type=int, default=15, metavar="N", help="timed blocks of each")
    parser.add_argument(
        "--block_s", type=float, default=0.25, metavar="S", help="time of a block, in seconds"
    )
    parser.add_argument(
        "--cpu_time", action="store_true", help="count processor time, as where a machine is busy"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    flags, overrides = parser.parse_with_overrides(arguments)
    task, context = get_task(flags.task), DistributedContext.single(flags.device)
    clock = time.process_time if flags.cpu_time else time.perf_counter
    if flags.cpu_time and context.device.type != "cpu":
        parser.error("--cpu_time is for --device cpu: a GPU works while the processor waits.")
    torch.set_num_threads(context.num_threads)
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    rows = [
        measure(task, cfg, context, num_envs, flags.blocks, flags.block_s, clock)
        for num_envs in flags.num_envs
    ]
    print(
        f"{task.id}, backend {cfg.sim.backend}, {context.device}, {context.num_threads} CPU "
        "threads, environment steps/s"
    )
    print(f"{'num_envs':>9} {'VectorEnv':>12} {'bare':>12} {'ratio':>6}  spread (p10 to p90)")
    for row in rows:
        low, high = row["env_steps_per_s_p10"], row["env_steps_per_s_p90"]
        print(
            f"{row['num_envs']:>9} {row['env_steps_per_s']:>12,.0f} "
            f"{row['bare_steps_per_s']:>12,.0f} "
            f"{row['ratio']:>6.2f}  {low:,.0f} to {high:,.0f}"
        )
    if flags.json:
        Path(flags.json).write_text(json.dumps({"task": task.id, "rows": rows}, indent=2) + "\n")
    return 0


def measure(
    task: Task,
    cfg: Any,
    context: DistributedContext,
    num_envs: int,
    blocks: int,
    block_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the figures of one size."""
    env: VectorEnv = task.make(
        merge(cfg, {"scene": {"num_envs": num_envs}}, "env"), context=context, seed=0
    )
    # Episodes end at different times, as in training, not all in one step.
    env.episode_length_buf = env.random.stream("benchmark").integers(0, env.max_episode_length)
    step = _stepper(env)
    bare = _bare_stepper(env)
    pair = (("env", step), ("bare", bare))
    steps = {name: _steps_in(function, block_s, clock) for name, function in pair}
    rates: dict[str, list[float]] = {"env": [], "bare": []}
    for _ in range(blocks):
        for name, function in pair:
            seconds = _time(function, steps[name], env.device, clock)
            rates[name].append(steps[name] * num_envs / seconds)
    env.close()
    ordered = sorted(rates["env"])
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "num_envs": num_envs,
        "env_steps_per_s": medians["env"],
        "bare_steps_per_s": medians["bare"],
        "ratio": medians["env"] / medians["bare"],
        "env_steps_per_s_p10": ordered[len(ordered) // 10],
        "env_steps_per_s_p90": ordered[-1 - len(ordered) // 10],
        "decimation": env.cfg.decimation,
    }


def _stepper(env: VectorEnv) -> Callable[[], None]:
    actions = torch.rand(env.num_envs, env.actions.shape[1], device=env.device) * 2 - 1

    def step() -> None:
        env.step(actions)

    return step


def _bare_stepper(env: VectorEnv) -> Callable[[], None]:
    """Return one control step of the backend alone, on a copy of the model."""
    if env.device.type != "cpu":
        return env.sim.step
    if isinstance(env.sim, AnalyticSimulation):
        simulation = create_simulation(
            env.cfg.sim,
            env.sim.model,
            env.num_envs,
            decimation=env.sim.decimation,
            device=env.device,
        )
        simulation.ctrl.uniform_(-1.0, 1.0)
        return simulation.step
    bare = batch.Batch(copy_model(env.sim.model), env.num_envs, env.context.num_threads)
    controls = (torch.rand(env.num_envs, env.sim.model.nu) * 2 - 1).numpy()

    def step() -> None:
        bare.ctrl[:] = controls
        bare.step(nstep=env.sim.decimation)

    return step


def _steps_in(function: Callable[[], None], seconds: float, clock: Callable[[], float]) -> int:
    """Return how many calls take about ``seconds``, after a warm-up of as long."""
    function()  # which may compile
    start, calls = clock(), 0
    while clock() - start < seconds:
        function()
        calls += 1
    return max(1, calls)


def _time(
    function: Callable[[], None], calls: int, device: torch.device, clock: Callable[[], float]
) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = clock()
    for _ in range(calls):
        function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
