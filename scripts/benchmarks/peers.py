"""Steps per second of Gymnasium's Ant here, in EnvPool and in Gymnasium's AsyncVectorEnv.

All three step the same model, Gymnasium's ``ant.xml``, with its own settings: RK4, 0.01 s, five
physics steps per step. Observations are the 27 positions and velocities everywhere, as contact
forces are switched off in the peers. A first round finds each contender's best batch size; then the
three run in turn, in blocks, so that a noisy machine disturbs all alike. Figures are medians. Steps
per CPU second, over all threads and processes, hold on a machine that others use too.

EnvPool is no part of envlab. Install it with: pip install -c constraints.txt envpool==1.2.5
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import torch

from envlab.cli import guarded
from envlab.distributed.context import DistributedContext
from envlab.envs import DirectEnv, DirectEnvCfg, DiscreteCfg, SceneCfg, SimulationCfg
from envlab.rl.command.arguments import ArgumentParser

NUM_ACTIONS = 8
INSTALL_ENVPOOL = "pip install -c constraints.txt envpool==1.2.5"
SIZES: dict[str, list[tuple[int, int]]] = {
    "AsyncVectorEnv": [(n, n) for n in (2, 8, 32)],
    "EnvPool": [(2, 2), (16, 16), (64, 64), (64, 32), (256, 256), (256, 128)],
    "envlab": [(n, n) for n in (64, 256, 1024)],
}
"""What to try: environments, and how many of them a step waits for."""


@dataclass(kw_only=True)
class AntV5Cfg(DirectEnvCfg):
    """Gymnasium's Ant-v5 without contact forces."""

    decimation: int = 5
    episode_length_s: float = 50.0
    action_space: int | DiscreteCfg = NUM_ACTIONS
    observation_space: int | list[int] | None = 27
    sim: SimulationCfg = field(default_factory=lambda: SimulationCfg(dt=0.01))
    scene: SceneCfg = field(
        default_factory=lambda: SceneCfg(model="gymnasium:envs/mujoco/assets/ant.xml")
    )


class AntV5(DirectEnv):
    """Run forwards: speed, plus 1 for a healthy height, minus the actions' cost."""

    cfg: AntV5Cfg

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._cost = 0.5 * actions.square().sum(dim=1)

    def _apply_action(self) -> None:
        self.sim.ctrl.copy_(self.actions)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": torch.cat((self.sim.data.qpos[:, 2:], self.sim.data.qvel), dim=1)}

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        height = self.sim.data.qpos[:, 2]
        self._fallen = (height < 0.2) | (height > 1.0)
        return self._fallen, self.episode_length_buf >= self.max_episode_length

    def _get_rewards(self) -> torch.Tensor:
        speed = (self.sim.data.qpos[:, 0] - self.last_qpos[:, 0]) / self.step_dt
        return speed + (~self._fallen).float() - self._cost

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        num_positions = self.reset_qpos.shape[1]
        stream = self.random.stream("reset")
        self.reset_qpos += stream.uniform(-0.1, 0.1, num_positions, mask)
        self.reset_qvel += 0.1 * stream.normal(0.0, 1.0, self.reset_qvel.shape[1])
        return {}


@dataclass
class Contender:
    """Something that steps."""

    name: str
    num_envs: int
    batch_size: int
    """Environment steps per call of :attr:`step`."""
    step: Callable[[], None]
    close: Callable[[], None]
    rates: list[float] = field(default_factory=list)
    """Environment steps per second of each block."""
    cpu_rates: list[float] = field(default_factory=list)
    """Environment steps per CPU second of each block."""

    def time(self, seconds: float) -> None:
        """Step for about ``seconds`` and note the rates."""
        start, cpu_start, calls = time.perf_counter(), cpu_seconds(), 0
        while (elapsed := time.perf_counter() - start) < seconds:
            self.step()
            calls += 1
        self.rates.append(calls * self.batch_size / elapsed)
        self.cpu_rates.append(calls * self.batch_size / (cpu_seconds() - cpu_start))

    @property
    def rate(self) -> float:
        """Median rate, in environment steps per second."""
        return statistics.median(self.rates)

    @property
    def cpu_rate(self) -> float:
        """Median rate, in environment steps per CPU second."""
        return statistics.median(self.cpu_rates)


def main(arguments: Sequence[str]) -> int:
    """Print the table, and write JSON where asked."""
    parser = ArgumentParser(prog="peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of envlab and EnvPool")
    parser.add_argument("--blocks", type=int, default=11, metavar="N", help="timed blocks of each")
    parser.add_argument("--block_s", type=float, default=1.0, metavar="S", help="time of a block")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    flags = parser.parse_args(arguments)
    torch.set_num_threads(flags.threads)
    names = list(SIZES)
    if importlib.util.find_spec("envpool") is None:
        print(f"EnvPool is not installed, so it is left out. Install it with: {INSTALL_ENVPOOL}")
        names.remove("EnvPool")
    sizes = {name: best_size(name, flags.threads, flags.block_s) for name in names}
    contenders = [build(name, *sizes[name], flags.threads) for name in names]
    for contender in contenders:
        contender.time(flags.block_s)  # warms up
        contender.rates.clear()
        contender.cpu_rates.clear()
    for _ in range(flags.blocks):
        for contender in contenders:
            contender.time(flags.block_s)
    for contender in contenders:
        contender.close()
    report(contenders, flags.threads, flags.json)
    return 0


def cpu_seconds() -> float:
    """Return the CPU time that this process, its threads and its children have used."""
    this = psutil.Process()
    times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)


def report(contenders: list[Contender], threads: int, path: str | None) -> None:
    """Print the table, and write it to ``path`` where there is one."""
    ours = next(contender for contender in contenders if contender.name == "envlab")
    rows = []
    print(f"Ant-v5 without contact forces, {threads} threads, environment steps/s")
    print(
        f"{'':15} {'num_envs':>9} {'batch':>6} {'steps/s':>9}  {'p10 to p90':>17}  envlab is"
        f"  {'per CPU s':>9}  envlab is"
    )
    for contender in contenders:
        ordered = sorted(contender.rates)
        low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
        print(
            f"{contender.name:15} {contender.num_envs:>9} {contender.batch_size:>6} "
            f"{contender.rate:>9,.0f}  {f'{low:,.0f} to {high:,.0f}':>17}  "
            f"{ours.rate / contender.rate:>8.2f}x  {contender.cpu_rate:>9,.0f}  "
            f"{ours.cpu_rate / contender.cpu_rate:>8.2f}x"
        )
        rows.append(
            {
                "name": contender.name,
                "num_envs": contender.num_envs,
                "batch_size": contender.batch_size,
                "steps_per_s": contender.rate,
                "steps_per_s_p10": low,
                "steps_per_s_p90": high,
                "steps_per_cpu_s": contender.cpu_rate,
                "envlab_over_this": ours.rate / contender.rate,
                "envlab_over_this_per_cpu_s": ours.cpu_rate / contender.cpu_rate,
            }
        )
    if path:
        text = json.dumps({"task": "Ant-v5", "threads": threads, "rows": rows}, indent=2)
        Path(path).write_text(text + "\n")


def best_size(name: str, threads: int, block_s: float) -> tuple[int, int]:
    """Return the number of environments and the batch with which a contender is fastest."""
    rates = {}
    for size in SIZES[name]:
        contender = build(name, *size, threads)
        for _ in range(4):
            contender.time(block_s)
        contender.close()
        rates[size] = statistics.median(contender.rates[1:])
    return max(rates, key=lambda size: rates[size])


def build(name: str, num_envs: int, batch_size: int, threads: int) -> Contender:
    """Return a contender that has been reset."""
    makers = {"envlab": make_envlab, "EnvPool": make_envpool, "AsyncVectorEnv": make_async}
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (num_envs, NUM_ACTIONS))
    step, close = makers[name](num_envs, batch_size, threads, actions)
    return Contender(name, num_envs, batch_size, step, close)


Stepper = tuple[Callable[[], None], Callable[[], None]]


def make_envlab(num_envs: int, batch_size: int, threads: int, actions: np.ndarray) -> Stepper:
    """Return how to step, and how to close, our environment."""
    context = DistributedContext(num_threads=threads)
    env = AntV5(AntV5Cfg(), context=context, num_envs=num_envs, seed=0)
    # Episodes end at different times, as in training, not all in one step.
    env.episode_length_buf = env.random.stream("benchmark").integers(0, env.max_episode_length)
    rows = torch.as_tensor(actions, dtype=torch.float32)
    return lambda: _discard(env.step(rows)), env.close


def make_envpool(num_envs: int, batch_size: int, threads: int, actions: np.ndarray) -> Stepper:
    """Return the same of EnvPool, which does not wait for its slowest environments."""
    env: Any = importlib.import_module("envpool").make(
        "Ant-v5",
        env_type="gymnasium",
        num_envs=num_envs,
        batch_size=batch_size,
        num_threads=threads,
        use_contact_force=False,
        post_constraint=False,
    )
    rows = actions[:batch_size]
    env.async_reset()

    def step() -> None:
        info = env.recv()[-1]
        env.send(rows, info["env_id"])

    return step, env.close


def make_async(num_envs: int, batch_size: int, threads: int, actions: np.ndarray) -> Stepper:
    """Return the same of Gymnasium's processes, one per environment."""
    env = gymnasium.make_vec(
        "Ant-v5",
        num_envs=num_envs,
        vectorization_mode="async",
        include_cfrc_ext_in_observation=False,
        contact_cost_weight=0.0,
    )
    env.reset(seed=0)
    rows = actions.astype(env.single_action_space.dtype)
    return lambda: _discard(env.step(rows)), env.close


def _discard(values: object) -> None:
    """Forget the results of a step."""


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
