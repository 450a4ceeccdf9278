"""The choice between skrl's two frameworks, and messages of its commands."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envlab.cli import play
from envlab.skrl import main as skrl_main
from envlab.training.launch import train
from tests.launcher import ROOT, run, torchrun
from tests.trained import manifest_of, only_run, session_of

TASK = "--task=Isaac-Cartpole-v0"
TRAIN = ROOT / "scripts/reinforcement_learning/skrl/train.py"
PLAY = ROOT / "scripts/reinforcement_learning/skrl/play.py"


def refused(folder: Path, capsys: Any, *arguments: str, script: Any = train) -> str:
    """Return the one sentence that a command answers with."""
    with contextlib.chdir(folder):
        assert script("skrl", arguments) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("error: ")
    assert list(folder.iterdir()) == []
    return str(error[-1])


@pytest.mark.parametrize(
    ("arguments", "framework"),
    [
        ([], "torch"),
        (["--ml_framework=torch"], "torch"),
        (["--ml_framework=jax"], "jax"),
        (["agent.ml_framework=jax"], "jax"),
        (["--ml_framework=torch", "agent.ml_framework=jax"], "torch"),
    ],
)
def test_the_composed_configuration_decides_which_adapter_is_loaded(
    arguments: list[str], framework: str
):
    pytest.importorskip(framework, reason="needs jax: pip install -e '.[jax]'")
    adapter = skrl_main.adapter_of(session_of("skrl", [TASK, *arguments]).agent_cfg, "learner")
    assert adapter.__name__ == f"envlab.skrl.{framework}.learner"


def test_jax_that_is_not_installed_is_one_sentence(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in ("jax", "flax", "optax") else find(name, *rest),
    )
    error = refused(tmp_path, capsys, TASK, "--ml_framework=jax")
    assert "needs jax, flax, optax, which cannot be found. Install with: pip install" in error


def test_pytorch_loads_no_jax():
    code = (
        "import sys; import envlab.skrl.torch.learner, envlab.skrl.torch.play;"
        "raise SystemExit('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm=pppo"], "ppo"),
        (["agent.ml_framework=tensorflow"], "must be one of 'torch', 'jax'"),
        (["--agent=skrl_nothing"], "has no agent configuration 'skrl_nothing'"),
        (["--algorithm=sac", "--agent=skrl_cfg_entry_point"], "is of ppo. Leave one of them out."),
        (["--algorithm=mappo"], "The algorithm trains several agents"),
        (["agent.trainer.timesteps=0"], "agent.trainer.timesteps is 0"),
        (["agent.agent.rollouts=0"], "must be greater than 0"),
        (["agent.agent.learning_rate_scheduler=KLAdaptive"], "Did you mean KLAdaptiveLR"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: Any, arguments: list[str], message: str
):
    assert message in refused(tmp_path, capsys, TASK, "--device=cpu", "--num_envs=4", *arguments)


def test_an_algorithm_without_an_agent_file_says_that_it_uses_defaults(tmp_path: Path, capsys: Any):
    flags = [TASK, "--device=cpu", "--num_envs=4", "--algorithm=a2c", "--max_iterations=1"]
    with contextlib.chdir(tmp_path):
        assert train("skrl", flags) == 0
    printed = capsys.readouterr()
    assert "has no skrl_a2c configuration; using the defaults." in printed.err
    assert "--algorithm=a2c" in printed.out  # of the command that plays it
    run_directory = only_run(tmp_path)
    assert run_directory.parent.name == "isaac_cartpole"
    assert run_directory.name.endswith("_a2c_torch")
    assert manifest_of(run_directory)["algorithm"] == "a2c"


def test_playing_without_a_run_says_where_it_looked(tmp_path: Path, capsys: Any):
    error = refused(tmp_path, capsys, TASK, "--device=cpu", script=play)
    assert "There is no run with a checkpoint in" in error
    assert "logs/skrl" in error


@pytest.mark.slow
@pytest.mark.long
def test_scripts_train_and_play_two_agents_on_two_processes(tmp_path: Path):
    task = "--task=Isaac-Cart-Double-Pendulum-Direct-v0"
    flags = [task, "--headless", "--distributed", "--algorithm=mappo", "--num_envs=32"]
    code, output = run(torchrun(2, TRAIN, *flags, "--max_iterations=2"), tmp_path)
    assert code == 0, output
    directory = only_run(tmp_path)
    assert directory.parent.name == "cart_double_pendulum_direct"
    assert manifest_of(directory)["status"] == "finished"
    command = [sys.executable, PLAY, task, "--algorithm=mappo", "--num_envs=4"]
    code, output = run(command, tmp_path)
    assert code == 0, output
    assert "Mean return" in output
    assert (directory / "exported/pendulum/policy.pt").is_file()
