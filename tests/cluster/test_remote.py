"""The scripts that run on hosts, run here."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envlab_cluster.ssh import MARKER, compose_script, remote_text
from tests.agents import free_port


@pytest.fixture
def rsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An rsync for scripts that look for one, and leave it to others to run."""
    program = tmp_path / "tools/rsync"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def run(name: str, *arguments: object) -> tuple[int, str]:
    """Return the exit code of a script, and its output."""
    done = subprocess.run(
        ["bash", "-s"],
        input=compose_script(name, arguments),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout.partition(MARKER)[2] + done.stderr


def test_following_a_log_ends_when_another_process_has_the_number_of_the_run(tmp_path: Path):
    (tmp_path / "pid").write_text(f"{os.getpid()} 1\n")
    (tmp_path / "log.txt").write_text("one\ntwo\n")
    assert run("follow.sh", tmp_path, len("one\n")) == (0, "two\n")


def test_a_start_is_seen_in_a_folder_with_odd_letters(tmp_path: Path):
    folder = tmp_path / "a [b] *"
    (folder / "ranks/x/attempt_0/0").mkdir(parents=True)
    assert run("await.sh", folder, 0) == (0, "state=started\n")


def test_nothing_starts_if_its_configuration_cannot_be_written(tmp_path: Path):
    code, out = run("start.sh", tmp_path, "x", f"touch '{tmp_path}/began'", "no/config.sh", "text")
    assert code == 3
    assert out == f"the folder {tmp_path} cannot be written to, or its disk is full.\n"
    assert not (tmp_path / "pid").exists()
    assert not (tmp_path / "began").exists()


def test_the_last_line_is_that_of_the_last_attempt(tmp_path: Path):
    for attempt in (2, 10):
        folder = tmp_path / f"ranks/x/attempt_{attempt}/0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(f"attempt {attempt}\n")
    _, output = run("status.sh", tmp_path, tmp_path, "none/0", "none")
    lines = [line for line in output.splitlines() if line.startswith("line=")]
    assert lines == ["line=0 attempt 2", "line=0 attempt 10"]


@pytest.mark.usefixtures("rsync")
def test_names_of_one_machine_that_ask_at_the_same_time_are_refused(tmp_path: Path):
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(run, "probe.sh", tmp_path, "", "new", 0, "", 0, "") for _ in range(6)]
        outputs = [one.result()[1] for one in asked]
    wanted = f"the folder {tmp_path} is another host's, too: name each machine once"
    assert sum(wanted in one for one in outputs) == 5
    (first,) = [one for one in outputs if wanted not in one]
    assert f"has no Python environment at {tmp_path}/venv/bin/activate" in first


@pytest.mark.usefixtures("rsync")
def test_a_claim_holds_while_code_may_be_sent(tmp_path: Path):
    claim = tmp_path / "runs/other/claim"
    claim.parent.mkdir(parents=True)
    claim.touch()
    then = time.time() - 11 * 60
    os.utime(claim, (then, then))
    code, output = run("probe.sh", tmp_path, "", "new", 0, "", 0, "")
    assert code == 3
    assert "the run other already exists" in output
    assert not (tmp_path / "runs/new").exists()


def meet(address: str, port: int, others: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", remote_text("meet.py"), address, str(port), str(others)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_nodes_meet(address: str):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        try:
            probe.bind((address, 0))
        except OSError as problem:
            pytest.skip(f"this machine has no {address} ({problem.strerror})")
    port = free_port()
    first = meet(address, port, 2)
    try:
        scanner = connect(address, port)
        # It breaks off, like a port scanner.
        scanner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        scanner.close()
        second = meet(address, port, 0)
        outputs = [process.communicate(timeout=60) for process in (second, first)]
    finally:
        first.kill()
        first.wait(10)
    assert outputs == [(f"local={address}\n", "")] * 2


def connect(address: str, port: int) -> socket.socket:
    end = time.monotonic() + 60.0
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_port_that_is_taken_by_ipv4_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        words = [sys.executable, "-c", remote_text("probe.py"), port]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert '"port": null, "problem": "Address already in use"' in done.stdout
