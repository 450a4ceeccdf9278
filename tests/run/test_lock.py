"""A run directory has one writer, whatever is started, and a dead writer does not block it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envlab.distributed.context import DistributedContext
from envlab.distributed.interface import process_space
from envlab.errors import RunDirectoryError
from envlab.run import lock as run_lock
from envlab.run.directory import Run
from envlab.run.lock import hold_lock

HOLD = """
import sys
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
open(sys.argv[1], "w").write(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""

Hold = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Hold]:
    """Makes a process that holds the lock of a folder, and claims to run on a machine."""
    holders = []

    def hold(machine: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLD, str(tmp_path / "lock"), f"b\n47\n{machine}\n"]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        return holder

    yield hold
    for holder in holders:
        holder.kill()
        holder.communicate()


def test_a_second_writer_is_refused_until_the_first_is_dead(tmp_path: Path, held: Hold):
    holder = held(process_space())
    with pytest.raises(RunDirectoryError, match=r"another launch \(host b, pid 47\).*--run_id"):
        hold_lock(tmp_path)
    holder.kill()
    holder.communicate()
    assert hold_lock(tmp_path) is not None


def test_a_holder_on_another_machine_without_a_sign_of_life_is_ignored(
    tmp_path: Path, held: Hold, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(run_lock, "PATIENCE_S", 0.1)
    held("another machine")
    (tmp_path / "heartbeats.json").write_text("1")
    assert hold_lock(tmp_path) is None
    assert "its holder gave no sign of life" in caplog.text


def test_a_holder_on_another_machine_that_writes_its_heartbeats_is_respected(
    tmp_path: Path, held: Hold
):
    held("another machine")
    (tmp_path / "heartbeats.json").write_text("1")
    beating = threading.Timer(0.5, (tmp_path / "heartbeats.json").write_text, ["2"])
    beating.start()
    with pytest.raises(RunDirectoryError, match="another launch"):
        hold_lock(tmp_path)
    beating.join()


def test_a_child_that_outlives_the_holder_does_not_keep_the_lock(tmp_path: Path):
    """Workers of environments on the host, say, which fork."""
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from envlab.run.lock import hold_lock\n"
        "folder = Path(sys.argv[1])\n"
        "lock = hold_lock(folder)\n"
        "if os.fork() == 0:\n"
        "    (folder / 'child').write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "while not (folder / 'child').exists(): time.sleep(0.01)\n"
        "time.sleep(0.1)\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    try:
        assert hold_lock(tmp_path) is not None
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_run_that_continues_elsewhere_is_left_alone(tmp_path: Path, held: Hold):
    held(process_space())
    (tmp_path / "run.json").write_text('{"status": "running"}')
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 7}\n')
    context = DistributedContext()
    with pytest.raises(RunDirectoryError, match="another launch"):
        Run.reopen(context, tmp_path, library="x", facts={}, iteration=5, frames=50)
    assert (tmp_path / "run.json").read_text() == '{"status": "running"}'
    assert (tmp_path / "metrics.jsonl").read_text() == '{"iteration": 7}\n'


def test_a_run_holds_its_directory_until_it_is_left(tmp_path: Path):
    def is_free() -> bool:
        code = "import sys; from filelock import FileLock; FileLock(sys.argv[1]).acquire(timeout=0)"
        words = [sys.executable, "-c", code, str(run.directory / "lock")]
        return subprocess.run(words, capture_output=True).returncode == 0

    named = {"library": "x", "experiment": "y", "facts": {}, "configs": {}}
    with (run := Run.create(DistributedContext(), **named, root=str(tmp_path))):
        assert not is_free()
    assert is_free()
