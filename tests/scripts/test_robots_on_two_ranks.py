"""Each library trains robots on two ranks, with the audit in every iteration."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.launcher import run, torchrun
from tests.trained import manifest_of, metrics_of

WORKER = Path(__file__).with_name("worker_robots.py")

WALKERS = [
    *("Isaac-Ant-v0", "Isaac-Velocity-Flat-Spot-v0", "Mjlab-Velocity-Rough-Unitree-G1"),
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-v0",
    *(f"Envlab-Velocity-Parkour{eyes}-Unitree-Go2-v0" for eyes in ("", "-Blind", "-Depth")),
    *("Playground-Go1Getup-v0", "Envlab-Getup-Flat-Unitree-G1-v0"),
    "Playground-T1JoystickFlatTerrain-v0",
    *(
        task.format(ground)
        for ground in ("Flat", "Rough")
        for task in (
            *("Isaac-Velocity-{}-Anymal-D-v0", "Isaac-Velocity-{}-Unitree-Go1-v0"),
            "Mjlab-Velocity-{}-Unitree-Go1",
        )
    ),
]
"""Trained in one launch, which costs less than one each."""
STEPS = "agent.num_steps_per_env=4"
ROLLOUTS = "agent.agent.rollouts=4"
SMALL_LSTM = [
    f"agent.params.{place}.{word}"
    for place in ("config", "config.central_value_config")
    for word in ("minibatch_size=32", "mini_epochs=1")
] + [f"agent.params.{place}network.rnn.units=16" for place in ("", "config.central_value_config.")]
HANDS_AND_ARMS = [
    *(
        ("rsl_rl", task, [STEPS])
        for task in (
            *("Isaac-Repose-Cube-Allegro-Direct-v0", "Envlab-Repose-Cube-Leap-Direct-v0"),
            "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0",
            *("Isaac-Franka-Cabinet-Direct-v0", "Isaac-Reach-UR10-v0"),
            "Isaac-Stack-Cube-Franka-v0",
        )
    ),
    ("rl_games", "Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0", SMALL_LSTM),
    ("skrl", "Isaac-Repose-Cube-Shadow-Direct-v0", [ROLLOUTS]),
    ("skrl", "Isaac-Shadow-Hand-Over-Direct-v0", ["--algorithm=MAPPO", ROLLOUTS]),
    ("skrl", "Isaac-Velocity-Flat-Unitree-Go2-v0", [ROLLOUTS]),
]
"""By library, with the words that make them small; also in one launch."""


@pytest.mark.slow
@pytest.mark.long  # each library's tests of two ranks have Cartpole
def test_two_ranks_train_each_robot_that_walks(tmp_path: Path):
    directories = train_all(tmp_path, [("rsl_rl", task, [STEPS]) for task in WALKERS], num_envs=10)
    for directory in directories.values():
        assert [record["frames"] for record in metrics_of(directory)] == [80, 160]


@pytest.mark.slow
@pytest.mark.long  # each library's tests of two ranks have Cartpole
def test_two_ranks_train_each_hand_and_each_arm(tmp_path: Path):
    directories = train_all(tmp_path, HANDS_AND_ARMS, num_envs=4)
    losses = {task: metrics_of(directory)[-1]["losses"] for task, directory in directories.items()}
    for task, values in losses.items():
        assert all(math.isfinite(value) for value in values.values()), task
    assert {"a_loss", "cval_loss"} <= set(losses["Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0"])
    assert any("left_hand" in name for name in losses["Isaac-Shadow-Hand-Over-Direct-v0"])
    for task, directory in directories.items():
        steps = 16 if "LSTM" in task else 4
        assert [record["frames"] for record in metrics_of(directory)] == [8 * steps, 16 * steps]


def train_all(
    folder: Path, runs: list[tuple[str, str, list[str]]], num_envs: int
) -> dict[str, Path]:
    """Train each (library, task, words) for two iterations on two ranks; return runs by task."""
    flags = ["--headless", "--distributed", "--device=cpu", f"--num_envs={num_envs}"]
    sizes = ["--max_iterations=2", "agent.audit_interval=1"]
    words = []
    for library, task, own in runs:
        words += ["+", library, f"--task={task}", *flags, *sizes, *own]
    code, output = run([*torchrun(2, WORKER), *words], folder, deadline_s=180.0)
    assert code == 0, output
    files = folder.glob("logs/*/*/*/run.json")
    manifests = {file.parent: manifest_of(file.parent) for file in files}
    assert {manifest["status"] for manifest in manifests.values()} == {"finished"}
    directories = {manifest["task"]: directory for directory, manifest in manifests.items()}
    assert sorted(directories) == sorted(task for _, task, _ in runs)
    return directories
