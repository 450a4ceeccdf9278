"""Ends a worker of pytest-xdist whose test runs long after its timeout.

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
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

_FOLDER = "PYTEST_XDIST_WORKERS_AT"


class HungWorkers:
    """A plugin for workers and for their controller."""

    def __init__(self, limit_s: float, grace_s: float = 60.0) -> None:
        """Make it.

        Args:
            limit_s: Of tests without their own limit, ``@pytest.mark.timeout(...)``.
            grace_s: For the timeout to be reported, and fixtures to end.
        """
        self._limit_s, self._grace_s = limit_s, grace_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note in a worker when a test must have ended."""
        if "PYTEST_XDIST_WORKER" not in os.environ:
            return (yield)
        own = item.get_closest_marker("timeout")
        end = time.time() + (own.args[0] if own else self._limit_s) + self._grace_s
        file = Path(os.environ[_FOLDER], str(os.getpid()))
        file.write_text(str(end))
        try:
            return (yield)
        finally:
            file.unlink(missing_ok=True)

    def pytest_sessionstart(self) -> None:
        """Watch over the workers from their controller."""
        if "PYTEST_XDIST_WORKER" not in os.environ:
            folder = tempfile.TemporaryDirectory(prefix="envlab_workers_")
            os.environ[_FOLDER] = folder.name
            threading.Thread(target=self._watch, args=(folder,), daemon=True).start()

    def _watch(self, folder: tempfile.TemporaryDirectory[str]) -> None:
        while True:
            time.sleep(1.0)
            with contextlib.suppress(OSError, ValueError, psutil.Error):
                for worker in psutil.Process().children():
                    self._end_if_late(worker, Path(folder.name, str(worker.pid)))

    def _end_if_late(self, worker: psutil.Process, file: Path) -> None:
        if file.exists() and time.time() > float(file.read_text()):
            worker.send_signal(signal.SIGABRT)
            worker.send_signal(signal.SIGCONT)
            time.sleep(1.0)  # for its stacks
            worker.kill()
            file.unlink()


def watch_workers(config: pytest.Config) -> None:
    """Register the plugin."""
    config.pluginmanager.register(HungWorkers(float(config.getini("timeout"))))
