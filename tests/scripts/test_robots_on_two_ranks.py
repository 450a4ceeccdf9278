"""Each library trains robots on two ranks, with the audit in every iteration, by its script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launcher import ROOT, run, torchrun
from tests.trained import manifest_of, metrics_of, only_run

WORKER = Path(__file__).with_name("worker_robots.py")

SCRIPTS = ROOT / "scripts/reinforcement_learning"
LIBRARIES = {
    "rsl_rl": ["agent.num_steps_per_env=8"],
    "rl_games": [
        "agent.params.config.horizon_length=8",
        "agent.params.config.minibatch_size=64",
    ],
    "skrl": ["agent.agent.rollouts=8"],
}
WALKERS = [
    *("Isaac-Velocity-Flat-Spot-v0", "Mjlab-Velocity-Rough-Unitree-G1"),
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-v0",
    *("Envlab-Velocity-Parkour-Unitree-Go2-v0", "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0"),
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "library"),
    [
        ("Isaac-Ant-v0", "rsl_rl"),
        pytest.param("Isaac-Ant-v0", "skrl", marks=pytest.mark.long),
        ("Isaac-Velocity-Flat-Unitree-Go2-v0", "rl_games"),
        ("Isaac-Velocity-Flat-Unitree-Go2-v0", "skrl"),
    ],
)
def test_two_ranks_train_and_stay_equal(tmp_path: Path, library: str, task: str):
    flags = [f"--task={task}", "--headless", "--distributed", "--device=cpu", "--num_envs=16"]
    sizes = ["--max_iterations=3", "agent.audit_interval=1", *LIBRARIES[library]]
    train = SCRIPTS / library / "train.py"
    code, output = run([*torchrun(2, train), *flags, *sizes], tmp_path, deadline_s=120.0)
    assert code == 0, output
    directory = only_run(tmp_path)
    assert manifest_of(directory)["status"] == "finished"
    frames = [record["frames"] for record in metrics_of(directory)]
    assert frames == [256, 512, 768]  # 2 ranks x 16 environments x 8 steps
    assert (directory / "checkpoints/model_3.pt").exists()


@pytest.mark.slow
def test_two_ranks_train_each_robot_that_walks(tmp_path: Path):
    flags = ["--headless", "--distributed", "--device=cpu", "--num_envs=10"]
    sizes = ["--max_iterations=2", "agent.audit_interval=1", "agent.num_steps_per_env=4"]
    words = [",".join(WALKERS), *flags, *sizes]
    code, output = run([*torchrun(2, WORKER), *words], tmp_path, deadline_s=180.0)
    assert code == 0, output
    directories = {manifest_of(file.parent)["task"]: file.parent for file in runs_in(tmp_path)}
    assert sorted(directories) == sorted(WALKERS)
    for directory in directories.values():
        assert manifest_of(directory)["status"] == "finished"
        assert [record["frames"] for record in metrics_of(directory)] == [80, 160]


def runs_in(folder: Path) -> list[Path]:
    """Return the manifests of the runs in a folder."""
    return list(folder.glob("logs/*/*/*/run.json"))
