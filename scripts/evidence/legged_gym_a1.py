"""Train legged_gym's A1 on a plane by legged_gym itself, as a contender of an experiment.

    LEGGED_GYM=$PWD/checkout python legged_gym_a1.py --task=LeggedGym-Flat-A1-v0 --seed=0 ...

LEGGED_GYM is the absolute path of a checkout of leggedrobotics/legged_gym. Its code runs unchanged,
on envlab's ``isaacgym``, with 512 environments; the task differs from its A1 as its anymal_c_flat
does from its anymal_c. From legged_gym's event files it writes
``logs/legged_gym/TASK/SEED/{run.json,metrics.jsonl}``, with the reward for following the commanded
velocity under the name that it has in envlab.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

NUM_ENVS, STEPS = 512, 24
"""Environments, and steps of each in an iteration."""
EVENTS = "legged_gym_events"
"""Folder of legged_gym's own files, here."""
THEIRS, OURS = "Episode/rew_tracking_lin_vel", "Episode_Reward/track_lin_vel_xy_exp"


def train() -> None:
    """Train by legged_gym, inside envlab's launcher."""
    import isaacgym  # noqa: F401 -- legged_gym wants it imported before torch
    from legged_gym.envs import A1RoughCfg, A1RoughCfgPPO, LeggedRobot
    from legged_gym.utils import get_args, task_registry

    args = get_args()

    class A1FlatCfg(A1RoughCfg):  # type: ignore[misc, valid-type]
        class env(A1RoughCfg.env):
            num_observations = 48

        class terrain(A1RoughCfg.terrain):
            mesh_type = "plane"
            measure_heights = False

    class A1FlatCfgPPO(A1RoughCfgPPO):  # type: ignore[misc, valid-type]
        seed = args.seed  # legged_gym draws with this one, whatever --seed says

        class policy(A1RoughCfgPPO.policy):
            actor_hidden_dims = (128, 64, 32)
            critic_hidden_dims = (128, 64, 32)

    task_registry.register("a1_flat", LeggedRobot, A1FlatCfg(), A1FlatCfgPPO())
    env, _ = task_registry.make_env(name="a1_flat", args=args)
    runner, cfg = task_registry.make_alg_runner(env=env, name="a1_flat", args=args, log_root=EVENTS)
    runner.learn(num_learning_iterations=cfg.runner.max_iterations, init_at_random_ep_len=True)


def write(folder: Path, events: Path, found: dict[str, Any]) -> None:
    """Write what an experiment records, from legged_gym's event files."""
    from envlab.run.compare.results import read_result
    from envlab.run.manifest import write_json
    from envlab.run.records import METRICS, line_of

    result = read_result(events, THEIRS)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        line_of(
            {
                "iteration": number + 1,
                "frames": (number + 1) * NUM_ENVS * STEPS,
                "wall_s": round(float(result.wall_s[number]), 1),
                "episode": {OURS: float(result.values[number])},
            }
        )
        for number in range(len(result.values))
    ]
    (folder / METRICS).write_bytes(b"".join(lines))
    write_json(folder / "run.json", found | {"created_at": result.manifest["created_at"]})


def main() -> None:
    """Have the launcher train, and write what an experiment records."""
    if importlib.util.find_spec("isaacgym") is not None:
        train()
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--max_frames", type=float, required=True)
    parser.add_argument("--num_episodes", type=int, required=True, help="0: none is played")
    flags = parser.parse_args()
    from envlab.interrupts import ending_in_order

    checkout = Path(os.environ.get("LEGGED_GYM", ""))
    if not (checkout / "legged_gym/envs/__init__.py").is_file():
        raise SystemExit(
            f"LEGGED_GYM is {os.environ.get('LEGGED_GYM')!r}, where there is no "
            "legged_gym/envs/__init__.py. Give the absolute path of a checkout of legged_gym."
        )
    iterations = int(flags.max_frames) // (NUM_ENVS * STEPS)
    shutil.rmtree(EVENTS, ignore_errors=True)  # of a run that was killed
    words = ["-m", "envlab_isaacgym", str(Path(__file__).resolve()), "--task=a1_flat", "--headless"]
    words += [f"--num_envs={NUM_ENVS}", f"--max_iterations={iterations}", f"--seed={flags.seed}"]
    path = os.pathsep.join([str(checkout.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}
    with ending_in_order():  # so that SIGTERM also ends the training
        subprocess.run([sys.executable, *words], env=environment, check=True)
    found = {
        "version": 1,
        "task": flags.task,
        "library": "legged_gym",
        "algorithm": "PPO",
        "seed": flags.seed,
        "status": "finished",
        "num_envs": NUM_ENVS,
        "global_num_envs": NUM_ENVS,
    }
    (events,) = Path(EVENTS).iterdir()
    write(Path("logs/legged_gym") / flags.task / str(flags.seed), events, found)


if __name__ == "__main__":
    main()
