"""A new user's first hour: each command follows from the output of the one before."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.launcher import run, torchrun
from tests.trained import manifest_of

SMALL = ["--num_envs=64", "--headless"]


class Shell:
    """The place of the hour: a folder that begins empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def envlab(self, *words: str) -> str:
        """Run a command of envlab's, which must succeed; return its output."""
        return self._run([sys.executable, "-m", "envlab", *words])

    def on_two_processes(self, *words: str) -> str:
        """Run a command of envlab's by torchrun."""
        return self._run([str(word) for word in torchrun(2, "-m", "envlab", *words)])

    def printed_command(self, begin: str, output: str) -> list[str]:
        """Return the words after ``envlab`` of a command that was printed after ``begin``."""
        (line,) = re.findall(rf"^{begin}(.*)$", output, re.MULTILINE)
        words = shlex.split(line)
        if "ENVLAB_SH" in os.environ:  # the tests were started by it, as the hour may be
            assert words.pop(0) == os.environ["ENVLAB_SH"]
        assert words[0] == "envlab"
        return words[1:]

    def _run(self, command: list[str]) -> str:
        code, output = run(command, self.folder)
        assert code == 0, output
        assert "Traceback" not in output
        return output


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("first_hour"))


@pytest.fixture(scope="module")
def trained(shell: Shell) -> str:
    """The output of training on two processes, with a configuration of the user's own."""
    mine = shell.envlab("config", "rsl_rl", "--task=Isaac-Cartpole-v0", "env.episode_length_s=4")
    (shell.folder / "mine.yaml").write_text(mine)
    flags = ["--task=Isaac-Cartpole-v0", "--config=mine.yaml", *SMALL]
    planned = shell.envlab("train", "rsl_rl", *flags, "--dry_run")
    assert not (shell.folder / "logs").exists()
    assert "Isaac-Cartpole-v0" in planned
    flags += ["--distributed", "--max_iterations=3"]
    return shell.on_two_processes("train", "rsl_rl", *flags)


@pytest.fixture(scope="module")
def run_directory(shell: Shell, trained: str) -> Path:
    (name,) = re.findall(r"^Run directory: (.*)$", trained, re.MULTILINE)
    return shell.folder / name


def test_it_looks_around(shell: Shell):
    assert "Isaac-Velocity-Flat-Unitree-Go2-v0" in shell.envlab("list", "--keyword", "Velocity")
    looked = shell.envlab("random", "--task", "Isaac-Cartpole-v0", "--num_envs=8", "--num_steps=5")
    assert "environment steps per second" in looked
    assert "track_lin_vel_xy_exp" in shell.envlab("terms", "rewards")


@pytest.mark.slow
def test_it_trains_on_two_processes_with_a_configuration_of_its_own(run_directory: Path):
    manifest = manifest_of(run_directory)
    assert manifest["status"] == "finished"
    assert manifest["world"]["size"] == 2
    assert "episode_length_s: 4.0" in (run_directory / "params/env.yaml").read_text()


def test_it_plays_by_the_command_that_was_printed(shell: Shell, trained: str, run_directory: Path):
    command = shell.printed_command("Play it: ", trained)
    played = shell.envlab(*command, "--num_envs=8", "--num_episodes=8", "--headless")
    assert re.search(r"Mean return -?[\d.]+ .*over 8 episodes", played)
    assert (run_directory / "exported/policy.onnx").is_file()


def test_it_resumes_with_more_iterations(shell: Shell, run_directory: Path):
    flags = ["--task=Isaac-Cartpole-v0", "--resume", f"--load_run={run_directory.name}"]
    resumed = shell.envlab("train", "rsl_rl", *flags, "--max_iterations=5", *SMALL)
    assert "model_5.pt" in resumed


@pytest.mark.long
def test_it_sweeps_lists_and_compares(shell: Shell, run_directory: Path):
    key = "agent.algorithm.learning_rate"
    flags = ["--task=Isaac-Cartpole-v0", *SMALL, "--max_iterations=2", "-m", f"{key}=0.001,0.0005"]
    swept = shell.envlab("train", "rsl_rl", *flags)
    assert re.search(
        r"^ *learning_rate +Final return .*\n-.*\n +0\.001 .*\n +0\.0005 ", swept, re.M
    )
    folders = sorted((shell.folder / "logs/rsl_rl/cartpole").glob("*learning_rate=*"))
    assert len(folders) == 2
    listed = shell.envlab("runs")
    for folder in (run_directory, *folders):
        assert folder.name in listed
    compared = shell.envlab("compare", *(str(folder) for folder in folders), "--by", key)
    assert "0.001" in compared
    assert "0.0005" in compared
