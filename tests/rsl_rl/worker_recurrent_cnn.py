"""The work of each of two ranks for the tests of a student with a depth camera, in one launch.

Usage: worker_recurrent_cnn.py FOLDER FLAGS...; it trains in FOLDER with the flags, and once more
with a teacher for each kind of ground, and writes ``first_update_rank<i>.pt`` and
``<job>_rank<i>.pt``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging
from envlab.rsl_rl.distillation import DistributedDistillation
from tests.rsl_rl.worker_distillation import Lesson, first_update
from tests.rsl_rl.worker_pair import train

CAMERA = {"width": 12, "height": 8}
GROUND = {"num_rows": 2, "num_cols": 3}
STUDENT = {
    "class_name": "envlab.rsl_rl.recurrent_cnn:RecurrentCNNModel",
    "hidden_dims": [16],
    "rnn_type": "gru",
    "rnn_hidden_dim": 8,
    "rnn_num_layers": 1,
    "cnn_cfg": {
        **{"output_channels": [4, 4], "kernel_size": [3, 3], "stride": [2, 2]},
        "activation": "elu",
    },
}
LESSON = Lesson(
    task="Envlab-Velocity-Rough-Depth-Unitree-Go2-v0",
    num_envs=8,
    env={
        "sensors": {"depth_camera": {"pattern_cfg": CAMERA}},
        "scene": {"terrain": {"terrain_generator": GROUND}},
    },
    agent={
        "num_steps_per_env": 8,
        "obs_groups": {"student": ["policy", "depth"], "teacher": ["critic"]},
        "student": STUDENT,
        "teacher": {"hidden_dims": [16]},
        "algorithm": {"num_learning_epochs": 1, "gradient_length": 8},
    },
)
"""A student of Go2's rough ground, small in everything."""


def by_ground(words: list[str]) -> list[str]:
    """Return the words of a distillation on courses of parkour, with the one teacher for each."""
    path = next(word.partition("=")[2] for word in words if word.startswith("--checkpoint="))
    kept = [word for word in words if not word.startswith(("--checkpoint=", "--task="))]
    teachers = [f"+agent.teachers.{name}={path}" for name in ("gaps", "hurdles", "steps")]
    return [*kept, *teachers, "--task=Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0"]


def main() -> None:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    updates = {"pooled": first_update(context, lesson=LESSON)}
    with mock.patch.object(DistributedDistillation, "reduce_parameters", return_value=None):
        updates["local"] = first_update(context, "library", LESSON)
    torch.save(updates, folder / f"first_update_rank{context.rank}.pt")
    for job in ("trained", "by_ground"):
        (folder / job).mkdir(exist_ok=True)
        context.gather(None)  # the folder exists
        os.chdir(folder / job)
        words = arguments if job == "trained" else by_ground(arguments)
        end = train(context, words, DistributedDistillation)
        torch.save(end, folder / f"{job}_rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
