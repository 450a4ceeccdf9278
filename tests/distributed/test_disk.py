"""Writing where there may be no room: whole files or none, whole records or none."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from envlab.distributed import disk
from envlab.distributed.disk import RecordFile, whole_file
from envlab.distributed.program import guarded
from envlab.errors import RunDirectoryError
from tests.disk import no_file_beyond


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_takes_the_place_of_the_old_one_when_it_is_whole(tmp_path: Path, fails: bool):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with contextlib.suppress(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
        if fails:
            raise KeyboardInterrupt
    assert path.read_bytes() == (b"old" if fails else b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_program_on_a_full_disk_ends_with_one_sentence(capsys):
    def program(where: Sequence[str]) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *where)

    for where, said in [
        (["logs/new"], r"error: logs/new could not be written: No space left on device[;.].*"),
        ([], r"error: A file could not be written: No space left on device\. Free some space"),
    ]:
        assert guarded(program, where) == 2
        assert re.match(said, capsys.readouterr().err)


@pytest.mark.parametrize("length", [100, 1_000_000])  # below what Python buffers, and above
def test_a_full_disk_is_an_os_error_whatever_the_writer_makes_of_it(tmp_path: Path, length: int):
    def write() -> None:
        with no_file_beyond(10), whole_file(tmp_path / "a") as file:
            try:
                file.write(bytes(length))
                file.flush()
            except OSError as error:
                raise RuntimeError("unexpected position") from error

    with pytest.raises(OSError, match="File too large") as caught:
        write()
    assert caught.value.errno == errno.EFBIG
    assert not list(tmp_path.iterdir())


def test_the_folder_is_flushed_after_the_rename(tmp_path: Path, monkeypatch):
    """Otherwise, a power cut may lose the new name of a flushed file."""
    synced = []

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(disk.os, "fsync", fsync)
    with whole_file(tmp_path / "a") as file:
        file.write(b"new")
    assert [Path(path).parent for path in synced] == [tmp_path, tmp_path.parent]


def test_an_observer_sees_a_large_file_grow(tmp_path: Path):
    sizes = [0]

    def look() -> None:
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))

    length = 3 * disk.PIECE_BYTES + 45
    with whole_file(tmp_path / "a", moved=look) as file:
        assert file.write(bytes(length)) == length
    assert (tmp_path / "a").stat().st_size == length
    growth = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(growth) <= disk.PIECE_BYTES


def test_threads_may_write_one_file_at_once(tmp_path: Path):
    """The watchdog's and the main one may: the last to write wins, with a whole file."""

    def write_other() -> None:
        with whole_file(tmp_path / "a") as other:
            other.write(b"other")

    with whole_file(tmp_path / "a") as file:
        file.write(b"mine")
        thread = threading.Thread(target=write_other)
        thread.start()
        thread.join(10.0)
        assert (tmp_path / "a").read_bytes() == b"other"
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_records_wait_for_room_and_none_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "records"
    records = RecordFile(path, "metrics")
    with no_file_beyond(10):
        for record in (b"first\n", b"second\n", b"third\n"):
            records.append(record)
            assert path.read_bytes() == b"first\n"
        (message,) = caplog.messages  # once a minute, not for each record
        records.close()
    assert caplog.messages[1].startswith("2 records of metrics are lost")
    assert records.num_waiting == 2
    assert "metrics cannot be written" in message
    assert str(path) in message
    assert "MiB are free" in message
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        records.append(b"fourth\n")
    assert path.read_bytes() == b"first\nsecond\nthird\nfourth\n"
    assert "The disk accepts writes again: 3 waiting records of metrics" in caplog.text
    assert records.num_waiting == 0


def test_another_error_of_writing_is_raised_and_a_folder_that_is_gone_is_one_sentence(
    tmp_path: Path,
):
    (tmp_path / "records").mkdir()
    with pytest.raises(IsADirectoryError):
        RecordFile(tmp_path / "records", "metrics").append(b"a")
    with pytest.raises(RunDirectoryError, match="absent was removed while the run wrote to it"):
        RecordFile(tmp_path / "absent/records", "metrics").append(b"a")


def test_half_written_data_after_an_error_is_cut_off_later(tmp_path: Path, monkeypatch):
    """A disk that becomes read-only in the middle of a record cannot be tidied at once."""

    def truncate(path: Path, length: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    records = RecordFile(tmp_path / "records", "metrics")
    records.append(b"first\n")
    with monkeypatch.context() as patch, no_file_beyond(8):
        patch.setattr(disk.os, "truncate", truncate)
        records.append(b"second\n")
    assert (tmp_path / "records").read_bytes() == b"first\nse"
    records.append(b"third\n")
    assert (tmp_path / "records").read_bytes() == b"first\nsecond\nthird\n"
