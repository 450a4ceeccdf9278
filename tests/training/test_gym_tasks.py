"""The libraries train and play Gymnasium's environments through the same scripts."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from pathlib import Path

import psutil
import pytest

from envlab.cli import main
from envlab.config import compose
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.registry import get_task, load_agent_values, load_env_cfg
from envlab.training.flags import Flags
from tests.launcher import ROOT, Launch, torchrun
from tests.trained import checkpoint_of, manifest_of, metrics_of, only_run, session_of

CARTPOLE = "--task=gym:CartPole-v1"
SHORT = {
    "rl_games": ["agent.params.config.horizon_length=8", "agent.params.config.mini_epochs=1"],
    "skrl": ["agent.agent.rollouts=8", "agent.agent.learning_epochs=1"],
}


def compose_for(library: str, task_id: str, *overrides: str):
    return session_of(library, [f"--task={task_id}", *overrides])


def test_agents_follow_the_kind_of_action_that_overrides_lead_to():
    lander = "gym:LunarLander-v3"
    assert compose_for("rl_games", lander).agent_cfg.params.algo.name == "a2c_discrete"
    for override in ("env.kwargs.continuous=true", "env={kwargs: {continuous: true}}"):
        numbers = compose_for("rl_games", lander, override)
        assert numbers.agent_cfg.params.algo.name == "a2c_continuous"
    assert compose_for("skrl", lander).agent_cfg.models["policy"]["class"] == "CategoricalMixin"
    assert compose_for("rsl_rl", "gym:Pendulum-v1").agent_cfg.actor.hidden_dims == [64, 64]
    assert compose_for("rl_games", lander).agent_cfg.experiment_name == "gym_lunarlander-v3"
    chosen = compose_for("skrl", lander, "agent.agent.experiment.directory=mine")
    assert chosen.agent_cfg.experiment_name == "mine"


def test_agent_files_have_only_keys_that_the_library_knows():
    for library, name in [
        ("rsl_rl", "Counting"),
        *itertools.product(SHORT, ("Counting", "Choosing", "ChoosingTwice")),
    ]:
        task = get_task(f"gym:tests.host.gym_envs:{name}-v0")
        task = task.suited(lambda found=task: load_env_cfg(found))
        assert library in task.libraries
        values = load_agent_values(task, library)
        assert values
        default = get_library(library).default_cfg(Flags())
        assert default.with_task_values(values) != default


def test_an_override_of_the_environment_is_checked_before_its_agent_is_chosen():
    with pytest.raises(ConfigurationError, match=r"Did you mean env.kwargs.gravity"):
        compose_for("skrl", "gym:LunarLander-v3", "env.kwargs.gravty=-5.0")
    cfg = compose({"env": load_env_cfg(get_task("gym:LunarLander-v3"))}, ["env.kwargs.gravity=-5"])
    assert cfg["env"].kwargs["gravity"] == -5.0


def test_a_run_trains_resumes_with_fresh_episodes_and_plays(tmp_path, monkeypatch, capsys):
    library = "skrl"  # rl_games trains on two ranks below
    monkeypatch.chdir(tmp_path)
    flags = [CARTPOLE, "--device=cpu", "--num_envs=16", *SHORT[library]]
    assert main(["train", library, *flags, "--max_iterations=2"]) == 0
    first = only_run(tmp_path)
    assert manifest_of(first)["task"] == "gym:CartPole-v1"
    assert (first / "params" / "env.yaml").read_text().count("sutton_barto_reward: false") == 1
    assert main(["train", library, *flags, "--resume", "--max_iterations=3"]) == 0
    errors = capsys.readouterr().err
    assert "episodes start fresh, because Gymnasium's environments cannot be saved" in errors
    assert "Resuming exactly" not in errors
    (second,) = {path.parent for path in tmp_path.glob("logs/*/*/*/run.json")} - {first}
    assert [row["frames"] for row in metrics_of(second)] == [3 * 8 * 16]
    assert main(["play", library, CARTPOLE, "--no_export", "env.max_episode_steps=20"]) == 0
    assert "of 20 steps" in capsys.readouterr().out


def test_rsl_rl_trains_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--device=cpu", "--num_envs=8", "--max_iterations=1", "agent.num_steps_per_env=8"]
    assert main(["train", "rsl_rl", "--task=gym:Pendulum-v1", *small]) == 0


def test_workers_end_with_a_run_that_cannot_begin(tmp_path, monkeypatch):
    """Even if nothing collects the error, which holds the environments."""
    monkeypatch.chdir(tmp_path)
    this, gc_was_on = psutil.Process(), gc.isenabled()
    before = set(this.children())
    gc.disable()
    try:
        words = ["--device=cpu", "--num_envs=4", "env.num_workers=2"]
        assert main(["train", "rsl_rl", CARTPOLE, *words]) == 2
        left = [one.cmdline() for one in set(this.children()) - before]
    finally:
        if gc_was_on:
            gc.enable()
    assert not [words for words in left if "envlab.host.worker:main" in words]


@pytest.mark.long
@pytest.mark.slow
def test_two_ranks_train_one_policy_and_a_killed_rank_leaves_no_worker(tmp_path: Path):
    flags = [CARTPOLE, "--device=cpu", "--num_envs=16", *SHORT["rl_games"], "env.num_workers=1"]
    flags += ["--distributed", "--max_iterations=100000", "agent.save_interval=2"]
    script = ROOT / "scripts/reinforcement_learning/rl_games/train.py"
    launch = Launch(torchrun(2, script, *flags), tmp_path)
    try:
        saved = "logs/*/*/*/checkpoints/model_2.pt"
        launch.wait_until(lambda: list(tmp_path.glob(saved)), deadline_s=200.0)
        run = only_run(tmp_path)
        assert checkpoint_of(run, 2)["frames"] == 2 * 8 * 32  # audited, as every checkpoint is
        assert len(launch.living()) >= 5  # the launcher, two ranks and a worker each
        os.kill(launch.pid_of_rank(1), signal.SIGKILL)
        assert launch.wait() != 0
        assert launch.left(10.0) == {}
    finally:
        launch.close()
