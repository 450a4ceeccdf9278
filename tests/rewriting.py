"""Rewrites the asserts of all tests once, before the workers of pytest-xdist begin.

They begin together, so that on a clean clone each would rewrite all files: twelve seconds of CPU,
four times.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).parent


class Rewriting:
    """A plugin for the process that starts the workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_sessionstart(self) -> None:
        """Write the files that pytest caches; it makes what is missing itself."""
        count = os.cpu_count() or 1
        files = [path for path in sorted(TESTS.rglob("*.py")) if self._is_rewritten(path)]
        fork = multiprocessing.get_context("fork")
        parts = [
            fork.Process(target=self._rewrite, args=(files[part::count],)) for part in range(count)
        ]
        for part in parts:
            part.start()
        for part in parts:
            part.join()

    def _is_rewritten(self, path: Path) -> bool:
        return path.name.startswith(("test_", "conftest")) and not pyc_of(path).exists()

    def _rewrite(self, files: Sequence[Path]) -> None:
        for path in files:
            # private: pytest has no other way to do this without executing the file
            source_hash, code = rewrite._rewrite_test(path, self._config)
            pyc = pyc_of(path)
            pyc.parent.mkdir(exist_ok=True)
            unfinished = pyc.with_suffix(f".{os.getpid()}")
            with unfinished.open("wb") as file:
                rewrite._write_pyc_fp(file, source_hash, code)  # private: see above
            unfinished.replace(pyc)


def pyc_of(path: Path) -> Path:
    """Return where pytest caches the rewritten code of a file."""
    return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"


def pytest_configure(config: pytest.Config) -> None:
    """Do so where workers are about to start, and their cache can be written."""
    starts_workers = getattr(config.option, "numprocesses", None)
    if (
        starts_workers
        and not sys.dont_write_bytecode
        and config.getvalue("assertmode") == "rewrite"
    ):
        config.pluginmanager.register(Rewriting(config))
