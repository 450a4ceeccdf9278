"""A child and its own children end however its parent ends; failures are one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from envlab.child import Child, ChildError, SilentChildError, end_all
from envlab.errors import ConfigurationError
from tests.launcher import ROOT

DEADLINE_S = 60.0


def child(function: Callable[..., Any], *arguments: object, **options: Any) -> Child:
    return Child(f"tests.test_child:{function.__name__}", *arguments, **options)


def double(connection: Connection, variable: str) -> str | None:
    connection.send(2 * connection.recv())
    return os.environ.get(variable)


def fail(connection: Connection, error: Exception) -> None:
    raise error


def end(connection: Connection, number: int) -> None:
    if number < 0:
        os.kill(os.getpid(), -number)
    sys.exit(number)


def sleep(connection: Connection, file: Path | None = None, heeds: bool = False) -> None:
    """Start a process and wait; write a file upon SIGTERM, and end then or not."""

    def note(*_: object) -> None:
        if file is not None:
            file.write_text("saved")
        if heeds:
            os._exit(0)

    signal.signal(signal.SIGTERM, note)
    started = subprocess.Popen(["sleep", "600"])
    connection.send([os.getpid(), started.pid])
    while True:
        time.sleep(0.1)


def await_end(pids: list[int]) -> None:
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if lives(pid)], 10.0)
    assert not [running.pid for running in alive if lives(running.pid)]


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_a_function_answers_and_returns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENVLAB_TEST_CHILD", "inherited")
    for environ, value in (({}, "inherited"), ({"ENVLAB_TEST_CHILD": None}, None)):
        with child(double, "ENVLAB_TEST_CHILD", environ=environ) as running:
            running.send(21)
            assert running.receive() == 42
            assert running.receive() == value
            assert running.process.wait(DEADLINE_S) == 0


def test_a_failure_is_one_sentence():
    for function, argument, kind, sentence in [
        (fail, ValueError("no\n  such thing"), ChildError, "ValueError: no such thing"),
        (fail, ConfigurationError("Name one."), ConfigurationError, "Name one."),
        (end, 3, ChildError, "ended with exit code 3"),
        (end, -signal.SIGSEGV, ChildError, "was ended by SIGSEGV"),
    ]:
        with child(function, argument) as running, pytest.raises(kind) as raised:
            running.receive()
        assert str(raised.value) == sentence


def test_a_child_that_ended_cannot_be_sent_anything():
    with child(end, 3) as running:
        running.process.wait(DEADLINE_S)
        with pytest.raises(ChildError, match="ended with exit code 3"):
            running.send("anything")


def test_a_silent_child_is_killed_with_its_own_children():
    with child(sleep) as running:
        pids = running.receive()
        running.timeout_s = 0.2
        running.send("hello")
        start = time.monotonic()
        with pytest.raises(SilentChildError, match=r"^no answer within 0.2 s$"):
            running.receive()
        assert time.monotonic() - start < 10.0
    assert running.exit_code == -signal.SIGKILL
    await_end(pids)


def test_children_are_asked_to_end_before_they_are_killed(tmp_path: Path):
    files = [tmp_path / "heeds", tmp_path / "ignores"]
    children = [child(sleep, file, file.name == "heeds") for file in files]
    pids = [running.receive() for running in children]
    start = time.monotonic()
    end_all(children, 1.5)
    assert time.monotonic() - start < 5.0
    assert [running.exit_code for running in children] == [0, -signal.SIGKILL]
    assert [file.read_text() for file in files] == ["saved", "saved"]
    await_end(pids[1])
    os.kill(pids[0][1], signal.SIGKILL)  # one that ends in order ends its own children


PARENT = """
import signal, sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.test_child import child, sleep
running = child(sleep, Path(sys.argv[1]), kill_signal=signal.{kill_signal})
print(*running.receive(), flush=True)
time.sleep(600)
"""


def test_it_ends_with_its_parent_however_that_ends(tmp_path: Path):
    for kill_signal in ["SIGKILL", "SIGTERM"]:
        file = tmp_path / "file"
        script = PARENT.format(root=str(ROOT), kill_signal=kill_signal)
        command = [sys.executable, "-c", script, file]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            pids = [int(word) for word in parent.stdout.readline().split()]
            parent.kill()
        assert len(pids) == 2
        await_end(pids[1:])  # all of the group get the signal
        if kill_signal == "SIGTERM":
            deadline = time.monotonic() + 10.0
            while not file.exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(pids[0], signal.SIGKILL)
        await_end(pids)
        assert file.exists() == (kill_signal == "SIGTERM")


def test_it_outlives_the_thread_that_started_it():
    children: list[Child] = []
    thread = threading.Thread(target=lambda: children.append(child(double, "HOME")))
    thread.start()
    thread.join()
    time.sleep(1.0)
    with children[0] as running:
        running.send(1)
        assert running.receive() == 2
