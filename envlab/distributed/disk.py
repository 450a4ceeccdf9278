"""Writing where there may be no room: a file is written whole or not at all, a record likewise.

A full disk must not end a run of days: it logs what could not be written, and goes on.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from envlab.errors import RunDirectoryError

logger = logging.getLogger(__name__)

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors that say: no room. The disk is full, a quota is used up, or a file may not grow more."""
SAY_EVERY_S = 60.0
"""How often a :class:`RecordFile` repeats that there is no room, in seconds."""
PIECE_BYTES = 2**24
"""What is written at a time, so that the watchdog sees a large file grow."""
SYNC_BYTES = 2**28
"""A file is flushed to disk after each of these; else the last flush would move all of it."""


@contextmanager
def surviving_full_disk(path: Path, what: str = "", so: str = "") -> Iterator[None]:
    """Leave the block where it meets want of room, and log an error; any other error is raised.

    Args:
        path: What is written, or where.
        what: What could not be written. Empty: it is not worth a word.
        so: The sentence that says what follows.
    """
    try:
        yield
    except OSError as error:  # PyAV's errors are of this kind, too
        if error.errno not in NO_ROOM:
            raise
        if what:
            logger.error("%s (%s). %s Make room there.", what, describe_room(path, error), so)


def describe_room(path: Path, error: OSError) -> str:
    """Return why a path could not be written, and how much is free there."""
    reason = error.strerror or type(error).__name__
    try:
        free = shutil.disk_usage(path if path.is_dir() else path.parent).free
    except OSError:
        return reason
    return f"{reason}; {free / 2**20:,.1f} MiB are free"


@contextmanager
def whole_file(path: Path, moved: Callable[[], None] = lambda: None) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` when the block is left without an error.

    It is written under a temporary name in the same folder, flushed to disk and renamed, and the
    folder is flushed too: a crash or a power cut leaves either the old file or the new one, and an
    error leaves the old one and nothing else.

    Args:
        path: The file.
        moved: Called for each piece that was written.

    Raises:
        OSError: What the writing met, even where the block raised another error because of it, as
            ``torch.save`` does.
    """
    temporary = temporary_name(path)
    try:
        with _WatchedFile(temporary, moved) as file:
            yield file  # type: ignore[misc]
            file.sync()
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """Return what a file may be called until it is whole, by no other thread or process."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.tmp")


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF):
            raise  # these say that this file system knows no such thing
    finally:
        os.close(descriptor)


class _WatchedFile:
    """A file that reports its growth, and remembers the first error of a write.

    ``torch.save`` (2.13) raises a RuntimeError of its own where writing failed.
    """

    def __init__(self, path: Path, moved: Callable[[], None]) -> None:
        self._file, self._moved = path.open("wb"), moved
        self._num_unsynced = 0
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        whole = memoryview(data).cast("B")
        try:
            for start in range(0, len(whole), PIECE_BYTES):
                self._num_unsynced += self._file.write(whole[start : start + PIECE_BYTES])
                self._moved()
                if self._num_unsynced >= SYNC_BYTES:
                    self.sync()
        except OSError as error:
            self._error = self._error or error
            raise
        return len(whole)

    def sync(self) -> None:
        """Flush what was written to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._num_unsynced = 0
        self._moved()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._file.close()
        except OSError as problem:  # what was buffered, once more
            self._error = self._error or problem
        if self._error is not None and not isinstance(error, OSError):
            raise self._error from error


def overwrite(path: Path, data: bytes) -> bool:
    """Write a small file over its own blocks, which needs no room, and return whether they do.

    It is for where :func:`whole_file` has met a full disk: one call writes it, but a power cut in
    its middle would damage it.
    """
    if not path.is_file() or path.stat().st_blocks * 512 < len(data):
        return False
    with path.open("r+b", buffering=0) as file:
        is_whole = file.write(data) == len(data)
        file.truncate(len(data))
        os.fsync(file.fileno())
    return is_whole


class RecordFile:
    """A file that grows by whole records, which wait in memory while there is no room for them."""

    def __init__(self, path: Path, what: str) -> None:
        """Write nothing yet.

        Args:
            path: The file, which is made when the first record is written.
            what: What the records are, for messages: ``"metrics"``.
        """
        self.path, self._what = path, what
        self._waiting: list[bytes] = []
        self._last_said: float | None = None

    @property
    def num_waiting(self) -> int:
        """Records that are not written yet."""
        return len(self._waiting)

    def append(self, record: bytes, *, flush: bool = True) -> None:
        """Write a record, or keep it where there is no room or ``flush`` is false.

        Raises:
            RunDirectoryError: If the folder is gone.
            OSError: If writing failed for another reason than want of room.
        """
        self._waiting.append(record)
        if flush:
            self.flush()

    def flush(self) -> None:
        """Write the waiting records; all of them, or none.

        Raises:
            RunDirectoryError: If the folder is gone.
            OSError: If writing failed for another reason than want of room.
        """
        if not self._waiting:
            return
        try:
            append_whole(self.path, b"".join(self._waiting))
        except FileNotFoundError as problem:
            raise RunDirectoryError(
                f"The run directory {self.path.parent} was removed while the run wrote to it. What "
                "it held is lost: start again, and leave it in its place.",
                same_on_all_ranks=False,
            ) from problem
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._say(error)
            return
        if self._last_said is not None:
            logger.warning(
                "There is room again: %d records of %s that had waited are in %s.",
                len(self._waiting),
                self._what,
                self.path,
            )
        self._waiting.clear()
        self._last_said = None

    def _say(self, error: OSError) -> None:
        now = time.monotonic()
        if self._last_said is None or now - self._last_said >= SAY_EVERY_S:
            self._last_said = now
            logger.error(
                "The %s cannot be written to %s (%s). The run goes on, and %d records wait in "
                "memory. Make room there.",
                self._what,
                self.path,
                describe_room(self.path, error),
                len(self._waiting),
            )


def append_whole(path: Path, data: bytes) -> None:
    """Append bytes to a file; an error leaves it as long as it was.

    Raises:
        OSError: If they cannot be written.
    """
    length = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError:
        if path.exists():
            os.truncate(path, length)
        raise
