"""A launch removes old snapshots from the hosts, except those still referred to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlab_cluster.hosts import read_hosts
from envlab_cluster.snapshot import prune_snapshots, send_snapshot, take_snapshot
from envlab_cluster.ssh import Ssh
from envlab_cluster.state import RunState, find_run
from tests.cluster.conftest import Commander
from tests.cluster.runs import run_on


def make_snapshots(path: Path, *names: str) -> list[Path]:
    """Make snapshots at a host, each an hour older than the one before it."""
    folders = []
    for age, letter in enumerate(names, 1):
        folder = path / "snapshots" / (letter * 16)
        folder.mkdir(parents=True)
        (folder / "train.py").touch()
        then = time.time() - 3600 * age
        os.utime(folder, (then, then))
        folders.append(folder)
    return folders


def names_at(path: Path) -> set[str]:
    return {folder.name for folder in (path / "snapshots").iterdir() if folder.is_dir()}


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)


@pytest.fixture
def living() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test starts."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait(10)


def test_a_launch_removes_old_snapshots_that_nothing_refers_to(
    command: Commander, tree: Path, living: list[subprocess.Popen[bytes]]
):
    path = command.cluster.hosts[0].path
    a, b, c, d, e, f = make_snapshots(path, *"abcdef")
    write(path / "runs/ended/run.sh", f"export PYTHONPATH='{c}':'{c}/source'\n")
    write(path / "venv/envlab-stamp.txt", f"{d} [] 0123\n")
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]  # of a run without a folder
    living.append(subprocess.Popen(sleeping, env={"PYTHONPATH": f"{e}:{e}/source"}))
    (path / "snapshots/notes").mkdir()
    make_snapshots(command.cluster.hosts[1].path, "a", "b")

    output = command.launch(tree, "--runs_on=host0,host1", "--keep_snapshots=2")
    run = find_run(None)
    # The newest two: the launch's own, and one more.
    assert names_at(path) == {run.snapshot, a.name, c.name, d.name, e.name, "notes"}
    assert names_at(command.cluster.hosts[1].path) == {run.snapshot, "a" * 16}
    (line,) = [line for line in output.splitlines() if "Removed" in line]
    assert line == (
        f"Removed old snapshots that no run refers to. host0: {b.name}, {f.name}; host1: {'b' * 16}"
    )
    command("kill", "--yes")


@pytest.fixture
def run(command: Commander) -> tuple[RunState, Ssh, Path]:
    """A run on one host, the connection to it, and the run's folder on the host."""
    host = read_hosts(command.cluster.folder / "hosts.yaml")[2]
    path = command.cluster.hosts[2].path
    return run_on(host, path=path, id="new"), Ssh(command.cluster.ssh_cmd), path


def test_nothing_is_removed_if_all_are_to_be_kept_or_another_launch_is_starting(
    run: tuple[RunState, Ssh, Path],
):
    state, ssh, path = run
    make_snapshots(path, *"abc")
    messages: list[str] = []
    prune_snapshots(state, ssh, 0, messages.append)
    claim = path / "runs/other/claim"
    write(claim, "")
    prune_snapshots(state, ssh, 1, messages.append)
    assert (len(names_at(path)), messages) == (3, [])
    claim.unlink()
    prune_snapshots(state, ssh, 1, messages.append)
    assert (names_at(path), len(messages)) == ({"a" * 16}, 1)


def test_leftovers_of_a_broken_transfer_are_removed_after_a_day(run: tuple[RunState, Ssh, Path]):
    state, ssh, path = run
    for name, days in (("old", 2.0), ("new", 0.0)):
        part = path / f"snapshots/.part-{name}"
        part.mkdir(parents=True)
        os.utime(part, (time.time() - 86400 * days,) * 2)
    prune_snapshots(state, ssh, 5, lambda line: None)
    assert names_at(path) == {".part-new"}


def test_a_snapshot_that_is_used_again_counts_as_new(run: tuple[RunState, Ssh, Path], tree: Path):
    (node,), ssh, path = run[0].nodes, *run[1:]
    snapshot = take_snapshot(tree)
    folder = Path(send_snapshot(snapshot, node.host, str(path), ssh).folder)
    os.utime(folder, (0, 0))
    assert send_snapshot(snapshot, node.host, str(path), ssh).num_files == 0
    assert folder.stat().st_mtime > time.time() - 600
