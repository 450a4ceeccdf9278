"""Record a robot's actuators in a simulator, as a test bench records a real robot's.

    python scripts/actuators/record.py --task Isaac-Velocity-Flat-Unitree-Go2-v0 --output log.npz

Targets wander around the default pose, in each recording at its own pace and width, so that the
joints also stall and turn fast. ``log.npz`` has a row for each recording and physics step:
``targets``, ``positions``, ``velocities`` and ``efforts``, ``(recordings, steps, joints)`` in rad,
rad/s and N m, and ``joint_names``. Write your robot's logs so, and ``train.py`` takes them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
import torch

from envlab import registry
from envlab.arguments import ArgumentParser, positive
from envlab.distributed.program import guarded

HOLD = 4
"""Physics steps between targets, as a policy gives them."""


def record(task_id: str, num_recordings: int, num_steps: int, seed: int) -> dict[str, np.ndarray]:
    """Return what ``log.npz`` holds."""
    task = registry.get_task(task_id)
    cfg = registry.load_env_cfg(task)
    cfg.decimation = 1
    cfg.sim.data_fields = (*cfg.sim.data_fields, "actuator_force")
    env = task.make(cfg, num_envs=num_recordings, seed=seed)
    sim, draw = env.sim, torch.Generator().manual_seed(seed)
    joints = sim.model.actuator_trnid[:, 0]
    qpos, qvel = sim.model.jnt_qposadr[joints].tolist(), sim.model.jnt_dofadr[joints].tolist()
    home = env.default_qpos[:, qpos]

    def uniform(low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(num_recordings, 1, generator=draw)

    width = uniform(0.05, 1.0)  # rad
    kept = uniform(0.0, 0.95)  # of the last offset in the next one
    offset = torch.zeros_like(home).repeat(num_recordings, 1)
    rows: dict[str, list[torch.Tensor]] = {
        "targets": [],
        "positions": [],
        "velocities": [],
        "efforts": [],
    }
    for step in range(num_steps):
        if step % HOLD == 0:
            noise = torch.randn(offset.shape, generator=draw)
            offset = kept * offset + (1.0 - kept**2).sqrt() * width * noise
            sim.ctrl.copy_(home + offset)
        rows["targets"].append(sim.ctrl.clone())
        rows["positions"].append(sim.data.qpos[:, qpos].clone())
        rows["velocities"].append(sim.data.qvel[:, qvel].clone())
        sim.step()
        rows["efforts"].append(sim.data.actuator_force.clone())  # of the step's beginning
    env.close()
    names = [sim.model.joint(int(joint)).name for joint in joints]
    log = {name: torch.stack(values, dim=1).numpy() for name, values in rows.items()}
    return log | {"joint_names": np.array(names)}


def main(arguments: Sequence[str]) -> int:
    """Write the log."""
    parser = ArgumentParser(description="Record a robot's actuators in a simulator.")
    parser.add_argument("--task", required=True)
    parser.add_argument("--output", default="log.npz")
    parser.add_argument("--num_recordings", type=positive, default=64)
    parser.add_argument("--num_steps", type=positive, default=400, help="physics steps of each")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    log = record(args.task, args.num_recordings, args.num_steps, args.seed)
    np.savez_compressed(args.output, **log)  # type: ignore[arg-type]
    spread = math.sqrt(float(np.square(log["efforts"]).mean()))
    print(f"{args.output}: {log['efforts'].shape} efforts, {spread:.1f} N m on average (RMS)")
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
