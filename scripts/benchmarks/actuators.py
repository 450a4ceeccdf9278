"""Environment steps of Go2 with actuators in torch, relative to MuJoCo's own, alternately.

    python scripts/benchmarks/actuators.py --lstm legs_lstm.pt

MuJoCo's are the task's, a DC motor; then come the same PD law in torch, without and with the
motor's line, and networks that were trained from it: the shipped one, and ``--lstm``, which
docs/actuators.md makes. Rates are medians over blocks of steps; ``--cpu_time`` counts processor
time, for a busy machine.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from envlab import registry
from envlab.arguments import ArgumentParser, positive
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.envs import VectorEnv
from envlab.envs.actuators import (
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    AnyActuatorCfg,
    DCMotorCfg,
    IdealPDActuatorCfg,
)

TASK = "Isaac-Velocity-Flat-Unitree-Go2-v0"
JOINTS = [".*_joint"]
LEGS: dict[str, Any] = {"joint_names_expr": JOINTS, "effort_limit": 23.5}
GAINS: dict[str, Any] = {"stiffness": 25.0, "damping": 0.5, **LEGS}
MOTOR: dict[str, Any] = {"saturation_effort": 23.5, "velocity_limit": 30.0}
NET: dict[str, Any] = {**LEGS, **MOTOR}
ACTUATORS: dict[str, AnyActuatorCfg | None] = {
    "MuJoCo's DC motor": None,
    "explicit PD": IdealPDActuatorCfg(**GAINS, in_torch=True),
    "DC motor": DCMotorCfg(**GAINS, **MOTOR, in_torch=True),
    "MLP": ActuatorNetMLPCfg(**NET, network_file="envlab_assets:actuators/go2_mlp.pt"),
}
STEPS = 10
"""Control steps of a block."""


def make(actuator: AnyActuatorCfg | None, num_envs: int, context: DistributedContext) -> VectorEnv:
    """Return Go2 with an actuator model, in the middle of its episodes."""
    task = registry.get_task(TASK)
    cfg = registry.load_env_cfg(task)
    if actuator is not None:
        cfg.scene.actuators = {"legs": actuator}
    env = task.make(cfg, context=context, num_envs=num_envs, seed=0)
    for _ in range(25):
        env.step(torch.zeros_like(env.actions))
    assert isinstance(env, VectorEnv)
    return env


def main(arguments: Sequence[str]) -> int:
    """Print a row for each actuator model."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lstm", metavar="FILE", help="also a network with a memory")
    parser.add_argument("--num_envs", type=positive, default=1024)
    parser.add_argument("--num_threads", type=positive, default=2)
    parser.add_argument("--blocks", type=positive, default=15, help="timed blocks of each")
    parser.add_argument("--cpu_time", action="store_true", help="count processor time")
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.num_threads)
    context = DistributedContext(num_threads=args.num_threads)
    clock = time.process_time if args.cpu_time else time.perf_counter
    models = dict(ACTUATORS)
    if args.lstm is not None:
        models["LSTM"] = ActuatorNetLSTMCfg(**NET, network_file=args.lstm)
    envs = {name: make(cfg, args.num_envs, context) for name, cfg in models.items()}
    taken: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(args.blocks):
        actions = 0.5 * torch.randn(STEPS, args.num_envs, 12)
        for name, env in envs.items():
            start = clock()
            for action in actions:
                env.step(action)
            taken[name].append((clock() - start) / STEPS)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    first = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"{name:18} {1e3 * median:7.1f} ms a step, rate {first / median:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
