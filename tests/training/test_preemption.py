"""SIGTERM and SIGUSR1 save and end a run after its iteration, with their own code and status."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from envlab.distributed.interrupt import PREEMPTED_EXIT_CODE
from envlab.training.rank import Rank
from tests.launcher import Launch
from tests.trained import (
    SLOW_END,
    SMALL,
    checkpoint_of,
    end_launch,
    manifest_of,
    metrics_of,
    only_run,
    signalled,
    train_in,
)

HANDLED = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"


def assert_saved(folder: Path, name: str) -> int:
    """Check that the only run was saved after its last iteration; return that iteration."""
    directory = only_run(folder)
    manifest = manifest_of(directory)
    assert (manifest["status"], manifest["error"]) == ("preempted", f"received {name}")
    last = metrics_of(directory)[-1]["iteration"]
    assert manifest["iteration"] == last
    checkpoint = checkpoint_of(directory, last)
    assert len(checkpoint["ranks"]) == manifest["world"]["size"]
    return last


def test_a_signal_to_one_rank_saves_and_ends_all(tmp_path: Path):
    """The other rank, rank 0, takes seconds longer to end."""
    preempted = end_launch(tmp_path, 1, signal.SIGUSR1, script=SLOW_END)
    assert_saved(tmp_path, "SIGUSR1")
    assert preempted.left == {}
    codes = [line for line in preempted.output.splitlines() if "exitcode" in line]
    assert len(codes) == 3, preempted.output  # a heading, the first to fail, the other
    assert all(f": {PREEMPTED_EXIT_CODE} " in line for line in codes[1:]), preempted.output
    assert "Preempted: received SIGUSR1, and saved; exit code 75." in preempted.output


@pytest.mark.long
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_the_launcher_passes_the_signal_on_and_waits(tmp_path: Path, name: str):
    """With the documented flag, without which SIGUSR1 would kill the launcher alone."""
    launcher = [f"--signals_to_handle={HANDLED}", "--shutdown_timeout=60"]
    ended = end_launch(tmp_path, None, signal.Signals[name], launcher=launcher)
    assert ended.code != 0
    assert ended.left == {}
    assert_saved(tmp_path, name)


def slurm(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> Path:
    """Make this process a job, with a ``scontrol`` that records its arguments."""
    asked = folder / "asked.txt"
    command = folder / "bin/scontrol"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\necho "$@" >>"{asked}"\n{answer}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    return asked


def preempt(folder: Path, *flags: str, by: signal.Signals, iteration: int = 2) -> int:
    """Train in this process, which gets a signal in an iteration; return the exit code."""
    with signalled(by, iteration=iteration):
        return train_in(folder, *SMALL, "--max_iterations=9", *flags)


def test_slurm_requeues_and_the_run_continues_in_its_directory(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(Rank, "number", lambda *_: 1)  # the first of its process, each time
    asked = slurm(tmp_path, monkeypatch, "exit 0")
    assert preempt(tmp_path, "--requeue", by=signal.SIGUSR1) == PREEMPTED_EXIT_CODE
    assert asked.read_text() == "requeue 77\n"
    assert assert_saved(tmp_path, "SIGUSR1") == 2
    # As Slurm does then: the same command, in the same job. This time it is cancelled.
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    code = preempt(tmp_path, "--requeue", by=signal.SIGTERM, iteration=4)
    assert code == PREEMPTED_EXIT_CODE
    assert asked.read_text() == "requeue 77\n"
    (restart,) = manifest_of(only_run(tmp_path))["restarts"]
    assert (restart["iteration"], restart["after"]) == (2, "preempted")
    assert [record["iteration"] for record in metrics_of(only_run(tmp_path))] == [1, 2, 3, 4]


def test_a_refused_requeue_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    slurm(tmp_path, monkeypatch, 'echo "Requested operation is presently disabled" >&2; exit 1')
    assert preempt(tmp_path, "--requeue", by=signal.SIGUSR1) == PREEMPTED_EXIT_CODE
    wanted = "Slurm does not requeue job 77 (Requested operation is presently disabled)"
    assert wanted in capsys.readouterr().err


def test_the_same_run_id_continues_in_the_same_directory(tmp_path: Path, capsys):
    flags = [*SMALL, "--run_id=mine"]
    assert preempt(tmp_path, *flags, by=signal.SIGTERM) == PREEMPTED_EXIT_CODE
    last = assert_saved(tmp_path, "SIGTERM")
    run = only_run(tmp_path)
    flags.append(f"--max_iterations={last + 1}")

    def go_on() -> None:
        assert train_in(tmp_path, *flags) == 0
        assert manifest_of(run)["status"] == "finished"
        assert metrics_of(run)[-1]["iteration"] == last + 1

    go_on()
    go_on()
    assert "already finished" in capsys.readouterr().err
    ended = manifest_of(run) | {"status": "running"}  # as if killed before its end
    (run / "run.json").write_text(json.dumps(ended))
    go_on()
    assert train_in(tmp_path, *flags, "agent.algorithm.learning_rate=0.002") == 2
    assert "--run_id" in capsys.readouterr().err
    assert train_in(tmp_path, *SMALL, "--run_id=other", "--max_iterations=1") == 0
    assert len(list(tmp_path.glob("logs/*/*/*/run.json"))) == 2


def test_a_signal_before_anything_is_written_ends_at_once(tmp_path: Path):
    """As before the ranks have met: rank 1 of two never comes."""
    code = (
        "import os\n"
        "from envlab.distributed import context\n"
        "from envlab.distributed.interrupt import interruptible\n"
        "os.environ |= dict(RANK='0', LOCAL_RANK='0', WORLD_SIZE='2', MASTER_ADDR='127.0.0.1',"
        " MASTER_PORT='0')\n"
        "meet = context.meet\n"
        "def told(*words, **more):\n"
        "    print('meeting', flush=True)\n"
        "    return meet(*words, **more)\n"
        "context.meet = told\n"
        "with interruptible():\n"
        "    context.DistributedContext.create(True, 'cpu')\n"
    )
    launch = Launch([sys.executable, "-c", code], tmp_path)
    try:
        launch.wait_until(lambda: "meeting" in launch.output)
        launch.process.terminate()
        assert launch.wait() == -signal.SIGTERM, launch.output
    finally:
        launch.close()
