"""Ends a worker of pytest-xdist whose test goes on long after its timeout.

pytest-timeout raises an error in the test, which needs the interpreter. Where native code holds it,
or the process is stopped, the whole session would wait for ever. The controller sees from outside
how long each worker has been at its test: SIGABRT makes it print its stacks (faulthandler), and
xdist names the test as one that crashed. With ``--max-worker-restart=0`` the session then ends;
otherwise xdist 3.8 runs the test again in another worker, and again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

_FOLDER = "ENVLAB_TEST_WORKERS"
_GRACE_S = 60.0  # for the test's own timeout to be reported, and its fixtures to end


class HungWorkers:
    """A plugin, of workers and of their controller."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def pytest_runtest_logstart(self) -> None:
        """Note in a worker that a test begins."""
        if "PYTEST_XDIST_WORKER" in os.environ:
            Path(os.environ[_FOLDER], str(os.getpid())).touch()

    def pytest_sessionstart(self) -> None:
        """Watch over the workers from their controller."""
        if "PYTEST_XDIST_WORKER" not in os.environ:
            folder = tempfile.TemporaryDirectory(prefix="envlab_workers_")
            os.environ[_FOLDER] = folder.name
            threading.Thread(target=self._watch, args=(folder,), daemon=True).start()

    def _watch(self, folder: tempfile.TemporaryDirectory[str]) -> None:
        while True:
            time.sleep(min(5.0, self._limit_s / 4))
            for worker in psutil.Process().children():
                file = Path(folder.name, str(worker.pid))
                with contextlib.suppress(FileNotFoundError, psutil.NoSuchProcess):
                    if time.time() - file.stat().st_mtime > self._limit_s:
                        worker.send_signal(signal.SIGABRT)
                        worker.send_signal(signal.SIGCONT)
                        file.unlink()


def watch_workers(config: pytest.Config) -> None:
    """Register the plugin, with a limit some time after the tests' own."""
    config.pluginmanager.register(HungWorkers(float(config.getini("timeout")) + _GRACE_S))
