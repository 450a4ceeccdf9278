"""How runs end: killed ranks and signals leave a status in the manifest and no process behind."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envlab.distributed import torchrun
from envlab.distributed.interrupt import SAME_PRESS_S, Interrupted, InterruptFlag, interruptible
from envlab.errors import RankDivergenceError
from envlab.libraries import get_library
from envlab.training.flags import Flags
from envlab.training.launch import train_with
from envlab.training.preparation import print_summary
from envlab.training.rank import Rank
from tests.launcher import PLAY, TRAIN, Launch
from tests.trained import (
    SMALL,
    EndedLaunch,
    checkpoint_of,
    end_launch,
    manifest_of,
    metrics_of,
    only_run,
)


def error_of(ended: EndedLaunch) -> str:
    """Return the sentence of a launch that failed."""
    assert ended.code != 0
    assert ended.left == {}
    manifest = manifest_of(only_run(ended.folder))
    assert manifest["status"] == "failed", (manifest, ended.output)
    return manifest["error"]


def test_a_killed_rank_ends_the_launch_and_is_named_once_without_a_traceback(
    killed_pair: EndedLaunch,
):
    error = error_of(killed_pair)
    assert re.match(r"Rank 1 \(.+\) died \(killed, .*\), last seen \d+ s ago in ", error), error
    assert killed_pair.output.count(error) == 1
    assert "Connection closed by peer" not in killed_pair.output


def test_nproc_starts_processes_of_jax_too(monkeypatch: pytest.MonkeyPatch):
    started: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(torchrun, "launch", lambda *given: started.append(given) or 0)
    words = ["--task=Isaac-Cartpole-v0", "--headless", "--ml_framework=jax"]
    assert train_with(get_library("skrl"), [*words, "--nproc=2"]) == 0
    assert started == [(2, ["-m", "envlab", "train", "skrl", *words, "--distributed"])]


@pytest.mark.long
def test_a_killed_rank_0_is_reported_by_a_survivor(tmp_path: Path):
    error = error_of(end_launch(tmp_path, 0, signal.SIGKILL))
    assert re.match(r"Rank 0 \(.+\) died .+ last seen", error), error


SELDOM_SAVED = [*SMALL, "--max_iterations=100000", "agent.save_interval=100000"]
LAUNCHES = {
    "one process": [sys.executable, TRAIN, *SELDOM_SAVED],
    "--nproc": [sys.executable, "-m", "envlab", "train", "rsl_rl", *SELDOM_SAVED, "--nproc=2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["one process", pytest.param("--nproc", marks=pytest.mark.long)])
def test_ctrl_c_saves_and_prints_how_to_play_and_to_resume(tmp_path: Path, how: str):
    launch = Launch(LAUNCHES[how], tmp_path)
    try:
        launch.wait_until(lambda: list(tmp_path.glob("logs/*/*/*/metrics.jsonl")))
        os.kill(launch.process.pid, signal.SIGINT)
        assert launch.wait(60) == 130
        assert launch.left() == {}
    finally:
        launch.close()
    assert "Traceback" not in launch.output
    directory = only_run(tmp_path)
    manifest = manifest_of(directory)
    assert (manifest["status"], manifest["error"]) == ("interrupted", "received SIGINT")
    last = metrics_of(directory)[-1]["iteration"]
    assert len(checkpoint_of(directory, last)["ranks"]) == manifest["world"]["size"]
    flag = f"--checkpoint={directory.relative_to(tmp_path)}/checkpoints/model_{last}.pt"
    (play,) = re.findall("^Play it: .*", launch.output, re.MULTILINE)
    (resume,) = re.findall("^Resume it: .*", launch.output, re.MULTILINE)
    assert play.endswith(f" --task=Isaac-Cartpole-v0 {flag}")
    assert resume.endswith(f" --resume {flag}")
    assert ("--nproc=2" in resume) == (how == "--nproc")
    assert "Interrupted: received SIGINT, and saved; exit code 130." in launch.output


@pytest.fixture
def flag() -> Iterator[InterruptFlag]:
    with interruptible() as flag:
        yield flag


def test_a_second_ctrl_c_ends_a_deferred_section_at_once(flag: InterruptFlag, capfd):
    with flag.deferred():
        flag.handle(signal.SIGINT, None)
        flag.handle(signal.SIGINT, None)  # the same key press, passed on by a launcher
        flag.handle(signal.SIGTERM, None)
        assert flag.signal_number == signal.SIGINT
        assert capfd.readouterr().err.count("Press Ctrl-C again to end the run at once") == 1
        time.sleep(SAME_PRESS_S)
        with pytest.raises(Interrupted, match="received SIGINT"):
            flag.handle(signal.SIGINT, None)


def test_the_suggested_command_works_where_it_is_printed(tmp_path: Path, monkeypatch, capsys):
    """With envlab.sh, no environment is activated; with `envlab train`, no script is next to it."""
    monkeypatch.chdir(tmp_path)
    session: Any = SimpleNamespace(
        library=get_library("rsl_rl"),
        task=SimpleNamespace(id="My-Task-v0"),
        agent_cfg=SimpleNamespace(origin={}),
        flags=SimpleNamespace(task="my_tasks:My-Task-v0"),
    )
    for script, envlab_sh, begins in (
        (TRAIN, "", ["python", str(PLAY)]),
        (tmp_path / "bin/envlab", "./envlab.sh", "./envlab.sh envlab play rsl_rl".split()),
        (tmp_path / "bin/envlab", "./my $(x)/a.sh", ["./my $(x)/a.sh", "envlab", "play", "rsl_rl"]),
    ):
        monkeypatch.setenv("ENVLAB_SH", envlab_sh)
        monkeypatch.setattr(sys, "argv", [str(script)])
        print_summary(session, tmp_path / "logs/run", tmp_path / "logs/run/checkpoints/model_1.pt")
        *where, command = capsys.readouterr().out.splitlines()
        assert where == [
            "Run directory: logs/run",
            "Last checkpoint: logs/run/checkpoints/model_1.pt",
        ]
        flags = ["--task=my_tasks:My-Task-v0", "--checkpoint=logs/run/checkpoints/model_1.pt"]
        assert shlex.split(command.removeprefix("Play it: ")) == [*begins, *flags]


@pytest.mark.parametrize(
    ("error", "is_told"),
    [(RankDivergenceError("policy.weight differs"), True), (RuntimeError("[gloo] closed"), False)],
)
def test_a_signal_hides_no_error_but_a_broken_collective(
    flag: InterruptFlag, error: Exception, is_told: bool
):
    flag.signal_number = signal.SIGTERM
    rank = Rank(Flags(command="train", task="Isaac-Cartpole-v0"), flag)
    with pytest.raises(type(error)) if is_told else contextlib.nullcontext(), rank:
        raise error
    assert rank.exit_code == (0 if is_told else 143)


def test_a_job_whose_time_is_up_before_it_begins_is_requeued(flag: InterruptFlag, monkeypatch):
    asked: list[bool] = []
    monkeypatch.setattr("envlab.training.rank.requeue", lambda: asked.append(True))
    for number in (signal.SIGTERM, signal.SIGUSR1):
        with Rank(Flags(command="train", task="Isaac-Cartpole-v0", requeue=True), flag) as rank:
            raise Interrupted(number)
        assert rank.exit_code == 128 + number
    assert asked == [True]
