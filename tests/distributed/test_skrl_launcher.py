"""skrl's launcher, which ignores how its workers end, and the supervisors that report it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("skrl", reason="needs skrl: pip install -e .")

from envlab.distributed.skrl_launcher import TEARDOWN_S, run_supervised
from tests.distributed.worker_launched import GRACE_S
from tests.launcher import Launch

WORKER = Path(__file__).with_name("worker_launched.py")


def start(folder: Path, how: str, script: Path = WORKER) -> Launch:
    launcher = ["-m", "skrl.utils.distributed.jax", "--nnodes", "1", "--nproc_per_node", "2"]
    return Launch([sys.executable, *launcher, script, how], folder)


def worker(folder: Path, rank: int) -> int:
    """Return the process id of a worker, which it wrote."""
    return int((folder / f"worker_{rank}").read_text().split()[0])


def end(launch: Launch) -> int:
    """Wait for a launch; its supervisors may take a moment longer than the launcher itself."""
    try:
        found = launch.wait()
        assert launch.left(10.0) == {}
        return found
    finally:
        launch.close()


def test_success_is_0_and_workers_know_their_number(tmp_path: Path):
    assert end(start(tmp_path, "succeed")) == 0
    sizes = [(tmp_path / f"worker_{rank}").read_text().split()[1] for rank in range(2)]
    assert sizes == ["2", "2"]


@pytest.mark.parametrize(
    ("how", "said"),
    [("raise", ["rank 0 noticed", "is broken\n"]), ("refuse", ["error: The flag is wrong."])],
)
def test_a_worker_that_fails_fails_the_launch_after_the_others_have_spoken(
    how: str, said: list[str], tmp_path: Path
):
    launch = start(tmp_path, how)
    assert end(launch) == -signal.SIGTERM
    assert [launch.output.count(words) for words in said] == [1] * len(said)


@pytest.mark.long  # the reason for the supervisors
def test_the_library_alone_exits_with_0(tmp_path: Path):
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit(1)")
    assert end(start(tmp_path, "", script)) == 0


def wait_for_workers(launch: Launch, folder: Path) -> None:
    launch.wait_until(lambda: all((folder / f"worker_{rank}").exists() for rank in range(2)))


def test_no_worker_outlives_a_launcher_that_is_killed(tmp_path: Path):
    launch = start(tmp_path, "wait")
    wait_for_workers(launch, tmp_path)
    launch.process.kill()
    assert end(launch) == -signal.SIGKILL


def test_workers_that_do_not_end_by_themselves_are_ended(tmp_path: Path):
    launch = start(tmp_path, "outlive")
    wait_for_workers(launch, tmp_path)
    began = time.monotonic()
    os.kill(worker(tmp_path, 1), signal.SIGKILL)
    assert end(launch) == -signal.SIGTERM
    assert time.monotonic() - began < GRACE_S + TEARDOWN_S  # no process had to be killed


def test_without_the_launcher_the_function_is_called(monkeypatch: pytest.MonkeyPatch):
    here = os.getpid()
    for variables in ({}, {"JAX_RANK": "0"}):  # set by hand, or by another launcher
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert run_supervised(lambda: os.getpid() - here) == 0
