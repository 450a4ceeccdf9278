"""Ctrl-C and a closing terminal leave nothing half done, and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlab import cli
from tests.cluster.conftest import Commander

LIBRARY = ["rsl_rl", "--task=Isaac-Cartpole-v0"]


def test_a_command_ends_at_once(command: Commander):
    mark = command.cluster.hosts[0].home / "began"
    words = ["--runs_on=host0", "--timeout_s=8", "--", f"touch {mark}; exec sleep 60"]
    launch = command.cluster.start("command", *words)
    launch.wait_until(mark.exists)
    began = time.monotonic()
    os.kill(launch.process.pid, signal.SIGINT)
    assert launch.wait() == 130
    assert time.monotonic() - began < 7.0
    wanted = "Interrupted: commands that still run on the hosts are ended after 8 s."
    assert launch.output.strip() == wanted
    assert launch.living() == {}


def test_a_command_that_is_still_being_loaded_ends_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupt)
    assert cli.main(["cluster", "status"]) == 130
    assert capsys.readouterr().err == "\nInterrupted.\n"


def test_a_launch_whose_terminal_closes_before_it_has_started_is_taken_back(
    command: Commander, tree: Path, fake_environment: Path
):
    hosts = command.cluster.hosts[:2]
    (hosts[1].home / "alone").touch()  # its torchrun waits for others
    words = [f"--env_activate_path={fake_environment}", "--runs_on=host0,host1", *LIBRARY]
    launch = command.cluster.start("launch", *words, cwd=tree)
    launch.wait_until(lambda: all(list(host.path.glob("runs/*/words")) for host in hosts))
    os.kill(launch.process.pid, signal.SIGHUP)
    assert launch.wait() == 129, launch.output
    assert "Traceback" not in launch.output
    assert command.cluster.living() == {}
    assert launch.living() == {}
    assert not list(command.cluster.state.rglob("*.json"))


def test_ctrl_c_before_the_start_takes_back_the_claims(
    command: Commander, tree: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object) -> None:
        assert list(command.cluster.hosts[0].path.glob("runs/*/claim"))
        raise KeyboardInterrupt

    monkeypatch.setattr("envlab_cluster.launch.check_versions", interrupt)
    output = command.launch(tree, "--runs_on=host0", ends=130)
    assert output == (
        "\nInterrupted: undoing what was begun on the hosts.\n\nNothing was started.\n"
    )
    assert not list(command.cluster.hosts[0].path.glob("runs/*/"))


def test_a_terminal_that_closes_leaves_the_run_and_no_connection(
    command: Commander, tree: Path, fake_environment: Path, monkeypatch: pytest.MonkeyPatch
):
    words = [f"--env_activate_path={fake_environment}", "--runs_on=host0", *LIBRARY]
    launch = command.cluster.start("launch", *words, cwd=tree)
    launch.wait_until(lambda: "training" in launch.output)
    os.kill(launch.process.pid, signal.SIGHUP)
    assert launch.wait() == 129
    assert launch.living() == {}
    assert command.cluster.living() != {}
    monkeypatch.setenv("XDG_STATE_HOME", str(command.cluster.state))
    command("kill", "--yes")


def test_ctrl_c_while_the_command_line_is_imported_is_one_word(tmp_path: Path):
    (tmp_path / "yaml.py").write_text("raise KeyboardInterrupt")  # while this is imported
    words = [sys.executable, "-c", "import envlab.cli"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "\nInterrupted.\n")
