"""Where Warp keeps compiled kernels, and how processes of a machine share one compilation.

A task's kernels take up to a minute to compile, once for each kind of GPU, and longer where many
processes do it at once, as Warp lets each compile for itself. Here the first process that needs
them compiles, and the others wait until it is done, and load the result together. The operating
system releases the lock when the first one ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

logger = logging.getLogger(__name__)

REPORT_EVERY_S = 10.0
"""Between two lines about the progress."""


def kernel_cache() -> Path:
    """Return the folder of Warp's kernels, without loading Warp; it need not exist."""
    version = metadata.version("warp-lang")
    given = os.environ.get("WARP_CACHE_PATH")
    if given is not None:
        return Path(given).resolve() / version
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "warp" / version


def num_modules(folder: Path) -> int:
    """Return how many modules of kernels a cache holds, 0 where there is no folder."""
    return sum(1 for _ in folder.glob("wp_*"))


@contextlib.contextmanager
def compiled_once(folder: Path, key: str, what: str) -> Iterator[None]:
    """Enter at once where kernels are compiled; else let one process of the machine do it.

    Where the folder cannot be written to, or has no locks, each process compiles for itself.

    Args:
        folder: The cache, which also holds the lock.
        key: Equal for processes that need the same kernels; a name of a file.
        what: The device of the kernels, such as ``cuda:0``, for the log.
    """
    places = folder / "envlab"
    ready = places / f"{key}.ready"
    with contextlib.ExitStack() as held:
        try:
            places.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((places / f"{key}.lock").open("a"))
            if not ready.exists():
                _take(lock.fileno(), folder, what)
            needs_order = not ready.exists()
            if not needs_order:  # kernels are loaded by all at once
                fcntl.flock(lock, fcntl.LOCK_UN)
        except OSError as error:  # no access, or a file system without locks
            logger.debug("Kernels are not shared: %s.", error)
            needs_order = False
        if not needs_order:
            yield
            return
        with _reported(folder, f"Compiling kernels for {what}"):
            yield
        with contextlib.suppress(OSError):  # the next process compiles, or finds them
            ready.touch()


def _take(lock: int, folder: Path, what: str) -> None:
    """Hold the lock alone; where another process does, say so, and wait for it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with _reported(folder, f"Waiting for another process, which compiles kernels for {what}"):
            fcntl.flock(lock, fcntl.LOCK_EX)


@contextlib.contextmanager
def _reported(folder: Path, doing: str) -> Iterator[None]:
    """Say every now and then how far a compilation is, from a thread."""
    start, before, is_done = time.monotonic(), num_modules(folder), threading.Event()

    def report() -> None:
        while not is_done.wait(REPORT_EVERY_S):
            logger.info(
                "%s: modules so far: %d, after %.0f s, into %s.",
                doing,
                num_modules(folder) - before,
                time.monotonic() - start,
                folder,
            )

    thread = threading.Thread(target=report, name="kernels", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
