"""Writing to a disk that may refuse: files and records are written whole or not at all.

Neither a full disk nor one that became read-only may end a run of days. The run logs what could not
be written, and continues.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from envlab.errors import RunDirectoryError

logger = logging.getLogger(__name__)

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors that mean no room: the disk is full, a quota is used up, or a file is at its limit."""
REFUSED = {
    *(errno.EROFS, errno.EPERM, errno.EACCES, errno.EIO),
    *(errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT),
}
"""Errors that mean not here, or not now: the file system became read-only after a fault, somebody
changed a folder's permissions, a file server no longer knows us, or the disk itself fails."""
SAY_EVERY_S = 60.0
"""How often a :class:`RecordFile` repeats that it cannot write, in seconds."""
PIECE_BYTES = 2**24
"""Bytes written at a time, so that the watchdog sees a large file grow."""
SYNC_BYTES = 2**28
"""Bytes between flushes to disk; otherwise the last flush would move the whole file."""


@contextlib.contextmanager
def surviving_disk_errors(path: Path, what: str = "", consequence: str = "") -> Iterator[None]:
    """Leave the block if the disk is full or refuses (see above), and log an error.

    Any other error is raised.

    Args:
        path: The file being written, or its folder.
        what: The clause on what could not be written. Empty: the error is not logged.
        consequence: A sentence on the consequences.
    """
    try:
        yield
    except OSError as error:  # including PyAV's errors
        if not is_disk_error(error):
            raise
        if what:
            logger.error("%s (%s). %s %s", what, describe(path, error), consequence, hint(error))


def is_disk_error(error: OSError) -> bool:
    """Return whether an error means that the disk is full or refuses, rather than a mistake."""
    return error.errno in NO_ROOM | REFUSED


def full_disk(error: Exception) -> RunDirectoryError | None:
    """Return the error to report if something could not be written for lack of room, else None."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    if error.filename is None:
        what, reason = "A file", error.strerror
    else:
        what, reason = error.filename, describe(Path(os.fsdecode(error.filename)), error)
    return RunDirectoryError(
        f"{what} could not be written: {reason}. Free some space, and run the same command again."
    )


def hint(error: OSError) -> str:
    """Return the sentence on how to fix such an error."""
    has_no_room = error.errno in NO_ROOM
    return "Free some space." if has_no_room else "Check that it can be written to again."


def describe(path: Path, error: OSError) -> str:
    """Return why a path could not be written, and the free space there if it matters."""
    reason = error.strerror or type(error).__name__
    if error.errno not in NO_ROOM:
        return reason
    try:
        free = shutil.disk_usage(path if path.is_dir() else path.parent).free
    except OSError:
        return reason
    return f"{reason}; {free / 2**20:,.1f} MiB are free"


@contextlib.contextmanager
def whole_file(path: Path, moved: Callable[[], None] = lambda: None) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when the block ends without an error.

    It is written under a temporary name in the same folder, flushed to disk and renamed, and the
    folder is flushed too. A crash or a power cut leaves either the old file or the new one, and an
    error leaves only the old one.

    Args:
        path: The file.
        moved: Called after each piece is written.

    Raises:
        OSError: The error of the write, even if the block raised another one because of it, as
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
    """Return a name for a file until it is whole, unique among threads and processes."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.tmp")


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF):
            raise  # these mean that this file system cannot do it
    finally:
        os.close(descriptor)


class _WatchedFile:
    """A file that reports its growth, and remembers the first error of a write.

    ``torch.save`` (2.13) replaces the error of a failed write by a RuntimeError.
    """

    def __init__(self, path: Path, moved: Callable[[], None]) -> None:
        self._file, self._moved = path.open("w+b"), moved  # HDF5 reads what it wrote
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
        """Flush the written data to disk."""
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
        except OSError as problem:  # from writing buffered data once more
            self._error = self._error or problem
        if self._error is not None and not isinstance(error, OSError):
            raise self._error from error


def overwrite(path: Path, data: bytes) -> bool:
    """Write a small file over its own blocks, which needs no room; return whether they sufficed.

    It is used where :func:`whole_file` cannot make a new file. A single call writes it, but a power
    cut in the middle would damage it.
    """
    if not path.is_file() or path.stat().st_blocks * 512 < len(data):
        return False
    with path.open("r+b", buffering=0) as file:
        is_whole = file.write(data) == len(data)
        file.truncate(len(data))
        os.fsync(file.fileno())
    return is_whole


class RecordFile:
    """A file that grows by whole records, which wait in memory while they cannot be written."""

    def __init__(self, path: Path, what: str) -> None:
        """Write nothing yet.

        Args:
            path: The file, which is made when the first record is written.
            what: Name of the records in messages: ``"metrics"``.
        """
        self.path, self._what = path, what
        self._waiting: list[bytes] = []
        self._end: int | None = None  # of the last whole record, once the file was checked
        self._last_said: float | None = None

    @property
    def num_waiting(self) -> int:
        """Number of records not yet written."""
        return len(self._waiting)

    def append(self, record: bytes, *, flush: bool = True) -> None:
        """Write a record, or keep it if the disk does not take it or ``flush`` is false.

        Raises:
            RunDirectoryError: If the folder no longer exists.
            OSError: If writing failed for another reason than the disk.
        """
        self._waiting.append(record)
        if flush:
            self.flush()

    def flush(self) -> None:
        """Write all of the waiting records, or none.

        Raises:
            RunDirectoryError: If the folder no longer exists.
            OSError: If writing failed for another reason than the disk.
        """
        if not self._waiting:
            return
        try:
            if self._end is None:
                self._end = self.path.stat().st_size if self.path.exists() else 0
            self._end = append_whole(self.path, b"".join(self._waiting), self._end)
        except FileNotFoundError as problem:
            raise RunDirectoryError(
                f"The run directory {self.path.parent} was removed while the run wrote to it. Its "
                "contents are lost: start again, and do not remove it.",
                same_on_all_ranks=False,
            ) from problem
        except OSError as error:
            if not is_disk_error(error):
                raise
            self._say(error)
            return
        if self._last_said is not None:
            logger.warning(
                "The disk accepts writes again: %d waiting records of %s were written to %s.",
                len(self._waiting),
                self._what,
                self.path,
            )
        self._waiting.clear()
        self._last_said = None

    def close(self) -> None:
        """Write what waits, or log that it is lost."""
        with contextlib.suppress(RunDirectoryError):
            self.flush()
        if self._waiting:
            logger.error(
                "%d records of %s are lost, because they could not be written to %s before the "
                "end.",
                *(len(self._waiting), self._what, self.path),
            )

    def _say(self, error: OSError) -> None:
        now = time.monotonic()
        if self._last_said is None or now - self._last_said >= SAY_EVERY_S:
            self._last_said = now
            logger.error(
                "The %s cannot be written to %s (%s). The run continues, and %d records wait "
                "in memory. %s",
                self._what,
                self.path,
                describe(self.path, error),
                len(self._waiting),
                hint(error),
            )


def append_whole(path: Path, data: bytes, end: int) -> int:
    """Append bytes to a file; an error leaves it as long as it was, if the disk allows that.

    Args:
        path: The file, made if need be.
        data: What to append.
        end: Position to write at; anything beyond it was left by an earlier error.

    Returns:
        The new end of the file.

    Raises:
        OSError: If they cannot be written.
    """
    try:
        with path.open("ab") as file:
            file.truncate(end)
            file.write(data)
    except OSError:
        with contextlib.suppress(OSError):  # a disk that has become read-only also refuses this
            os.truncate(path, end)
        raise
    return end + len(data)
