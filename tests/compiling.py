"""Compiles all files once, and rewrites the asserts of tests, before pytest-xdist's workers begin.

They begin together, so that on a clean clone each would do it: fifteen seconds of CPU, four times.
"""

from __future__ import annotations

import multiprocessing
import os
import py_compile
import sys
from collections.abc import Sequence
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[1]
FOLDERS = ("envlab", "source", "scripts", "tests")


class Compiling:
    """A plugin for the process that starts the workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_sessionstart(self) -> None:
        """Write the files that Python and pytest cache; they make what is missing themselves."""
        count = os.cpu_count() or 1
        found = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]
        files = [path for path in found if not cached(path).exists()]
        fork = multiprocessing.get_context("fork")
        parts = [
            fork.Process(target=self._compile, args=(files[part::count],)) for part in range(count)
        ]
        for part in parts:
            part.start()
        for part in parts:
            part.join()

    def _compile(self, files: Sequence[Path]) -> None:
        for path in files:
            if not is_rewritten(path):
                py_compile.compile(str(path), quiet=2)
                continue
            # private: pytest has no other way to do this without executing the file
            source_hash, code = rewrite._rewrite_test(path, self._config)
            place = cached(path)
            place.parent.mkdir(exist_ok=True)
            unfinished = place.with_suffix(f".{os.getpid()}")
            with unfinished.open("wb") as file:
                rewrite._write_pyc_fp(file, source_hash, code)  # private: see above
            unfinished.replace(place)


def is_rewritten(path: Path) -> bool:
    """Return whether pytest takes a file for a module of tests."""
    return path.is_relative_to(ROOT / "tests") and path.name.startswith(("test_", "conftest"))


def cached(path: Path) -> Path:
    """Return where a file's compiled code is kept."""
    if is_rewritten(path):
        return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    return Path(cache_from_source(str(path)))


def pytest_configure(config: pytest.Config) -> None:
    """Do so where workers are about to start, and their cache can be written."""
    starts_workers = getattr(config.option, "numprocesses", None)
    if (
        starts_workers
        and not sys.dont_write_bytecode
        and config.getvalue("assertmode") == "rewrite"
    ):
        config.pluginmanager.register(Compiling(config))
