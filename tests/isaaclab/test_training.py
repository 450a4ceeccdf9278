"""A project's task by envlab's own runner: ``--isaaclab FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab_isaaclab import old_agents, upstream
from tests.golden.libraries import launch as train_several
from tests.launcher import run as launch
from tests.small_runs import check_same_end
from tests.trained import checkpoint_of, only_run

PROJECT = Path(__file__).parent / "project"
TASK = [f"--isaaclab={PROJECT}", "--task=Small-Walker-v0", "--device=cpu", "--headless"]
SMALL = [*TASK, "--num_envs=16", "agent.save_interval=2"]


@pytest.fixture(scope="module", autouse=True)
def isaaclab() -> Path:
    try:
        return upstream.find()
    except ConfigurationError as error:
        pytest.skip(f"needs Isaac Lab's files: {error}")


def envlab(folder: Path, *words: str) -> tuple[int, str]:
    """Run a command in a folder; return its exit code and what it printed."""
    folder.mkdir(exist_ok=True)
    return launch([sys.executable, "-m", "envlab", *words], folder)


def train(folder: Path, *words: str) -> Path:
    """Train in a folder; return the run."""
    code, output = envlab(folder, "train", "rsl_rl", *words)
    assert code == 0, output[-3000:]
    return only_run(folder)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_projects_task_trains_and_resumes_exactly(tmp_path: Path, ranks: int) -> None:
    words = [*SMALL, "--max_iterations=4", *(["--distributed"] if ranks == 2 else [])]
    path = tmp_path / "whole/logs/*/*/*/checkpoints/model_2.pt"
    jobs = [("whole", words), ("resumed", [*words, "--resume", f"--checkpoint={path}"])]
    train_several(tmp_path, ((name, "rsl_rl", words) for name, words in jobs), num_ranks=ranks)
    whole, resumed = (only_run(tmp_path / name) for name, _ in jobs)
    check_same_end(resumed, whole, resumed_at=2, iteration=4)
    saved = checkpoint_of(whole, 4)
    assert saved["frames"] == 4 * 8 * 16 * ranks
    assert saved["model"]["actor_state_dict"]["obs_normalizer.count"] == saved["frames"]
    if ranks == 2:  # which have their own episodes
        mine, other = (part["env"]["obs_buf"]["policy"] for part in saved["ranks"])
        assert not torch.equal(mine, other)


@pytest.mark.slow
def test_overrides_of_the_tasks_own_configurations_apply_and_are_played(tmp_path: Path) -> None:
    run = train(
        tmp_path,
        *SMALL,
        "--max_iterations=1",
        "env.rewards.alive.weight=3",
        "env.rewards.upright=null",
        "env.rewards.contacts=null",
        "env.scene.robot.actuators.legs.stiffness=30.0",
        "agent.policy.actor_hidden_dims=[8,4]",
        "agent.policy.activation=tanh",
        "agent.empirical_normalization=true",
    )
    env, agent = (load_yaml(run / f"params/{name}.yaml") for name in ("env", "agent"))
    assert env["rewards"]["alive"]["weight"] == 3.0
    assert env["rewards"]["upright"] is None
    assert env["decimation"] == 2
    assert env["scene"]["robot"]["actuators"]["legs"]["stiffness"] == 30.0
    assert agent["actor"]["hidden_dims"] == [8, 4]
    assert agent["actor"]["activation"] == agent["critic"]["activation"] == "tanh"
    assert agent["critic"]["obs_normalization"]
    code, output = envlab(tmp_path, "play", "rsl_rl", *TASK, "--num_envs=4", "--json=played.json")
    assert code == 0, output[-3000:]
    values = json.loads((tmp_path / "played.json").read_text())
    # 50 steps of 0.01 s, at the only reward that is left: 3 a second for being alive.
    assert values["return"] == pytest.approx(3.0 * 50 * 0.01, abs=1e-4)
    policy = torch.jit.load(str(run / "exported/policy.pt"))
    assert policy(torch.zeros(1, 8)).shape == (1, 2)


@pytest.mark.long
def test_on_another_number_of_processes_environments_begin_anew_and_the_log_says_so(
    tmp_path: Path,
) -> None:
    whole = train(tmp_path / "whole", *SMALL, "--max_iterations=2")
    again = ["--resume", f"--checkpoint={whole}/checkpoints/model_2.pt", "--max_iterations=3"]
    words = [word for word in SMALL if word != "--num_envs=16"]
    code, output = envlab(tmp_path / "resumed", "train", "rsl_rl", *words, "--nproc=2", *again)
    assert code == 0, output[-3000:]
    assert "cannot be dealt to another number of processes: they begin new episodes" in output


MISTAKES = {
    "--isaaclab={empty} --task=X": "in which no package registers a task",
    "--isaaclab={project} --task=Small-Walkr-v0": "Did you mean Small-Walker-v0?",
    "{task} env.rewards.aliv.weight=1": "Did you mean env.rewards.alive.weight?",
    "{task} env.rewards.alive.weight=abc": "env.rewards.alive.weight must be a number",
    "{task} env.decimation=1.5": "env.decimation must be a whole number",
    "{task} agent.policy.class_name=ActorCriticRecurrent": "agent.actor.class_name=RNNModel",
    "{task} env.actions.legs.joint_names=[foo]": "Isaac Lab cannot make the task: ",
}


SHORT = ("{task} env.rewards.aliv.weight=1", "{task} env.actions.legs.joint_names=[foo]")
"""Before and after the task is made; each takes a process that imports Isaac Lab."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [pytest.param(row, marks=[] if row in SHORT else [pytest.mark.long]) for row in MISTAKES],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: str) -> None:
    task = f"--isaaclab={PROJECT} --task=Small-Walker-v0 --num_envs=4 --device=cpu"
    given = words.format(empty=tmp_path, project=PROJECT, task=task).split()
    code, output = envlab(tmp_path, "train", "rsl_rl", *given)
    assert code == 2, output[-3000:]
    assert MISTAKES[words] in output
    assert "Traceback" not in output
    assert not (tmp_path / "logs").exists()


def test_paths_of_older_agents_are_those_of_todays() -> None:
    networks = ("student", "teacher")
    found = {
        path: old_agents.new_paths(path, networks)
        for path in ("policy.init_noise_std", "policy.teacher_hidden_dims", "policy.activation")
    }
    assert found == {
        "policy.init_noise_std": ["student.distribution_cfg.init_std"],
        "policy.teacher_hidden_dims": ["teacher.hidden_dims"],
        "policy.activation": ["student.activation", "teacher.activation"],
    }
    assert old_agents.new_paths("obs_groups.policy", networks) == ["obs_groups.student"]
    assert old_agents.new_paths("algorithm.gamma", networks) == ["algorithm.gamma"]
