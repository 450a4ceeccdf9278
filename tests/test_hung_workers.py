"""A test that nothing in its process can end is named, and the session ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher import ROOT

CONFTEST = """
from tests.hung_workers import HungWorkers

def pytest_configure(config):
    config.pluginmanager.register(HungWorkers(2.0, grace_s=1.0))
"""
STOPPED = """
import os, pytest, signal, time

@pytest.mark.timeout(30)
def test_that_may_take_longer():
    time.sleep(5.0)

def test_that_stops_its_process():
    os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)

def test_after_it():
    pass
"""


@pytest.mark.long
def test_a_worker_that_is_stopped_is_ended_and_its_test_named(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_stopped.py").write_text(STOPPED)
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    words = [sys.executable, *"-m pytest -n 2 --dist loadfile --max-worker-restart=0".split()]
    words += ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}"]
    environment = {name: text for name, text in os.environ.items() if "PYTEST_" not in name}
    done = subprocess.run(
        [*words, str(tmp_path)],
        env=environment | {"PYTHONPATH": f"{ROOT}:{ROOT / 'source'}"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "crashed while running 'test_stopped.py::test_that_stops_its_process'" in done.stdout
    assert "in test_that_stops_its_process" in done.stderr  # its stack
