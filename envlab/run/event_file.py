"""TensorBoard's event files, written so that a full disk does not end the run.

TensorBoard's own writer (2.20) writes in a thread that a full disk kills, and every later value
raises the thread's error.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub import errors
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
from tensorboard.summary.writer.record_writer import RecordWriter

from envlab.distributed.disk import RecordFile
from envlab.errors import RunDirectoryError

logger = logging.getLogger(__name__)

FLUSH_S = 10.0
"""How long values may wait in memory, in seconds."""
_FRAME = 16
"""Bytes around a record: its length, the checksum of the length, and that of the record."""
_numbers = itertools.count()


class EventFile:
    """Appends scalars to a new event file in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open the file and write its header."""
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._file = RecordFile(folder / f"{name}.{next(_numbers):06d}", "TensorBoard's curves")
        self._last_flush = time.monotonic()
        self._append(Event(wall_time=time.time(), file_version="brain.Event:2"))
        self._file.flush()

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add values by tag, all at the same step of their curves."""
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        if time.monotonic() - self._last_flush > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write the values that wait in memory."""
        self._last_flush = time.monotonic()
        self._file.flush()

    def close(self) -> None:
        """Write the values that still wait in memory, and close the file."""
        self.flush()

    def _append(self, event: Event) -> None:
        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        self._file.append(record.getvalue(), flush=False)


def cut_events(folder: Path, tag: str, step: int) -> None:
    """Cut a folder's event files back to where a run resumes, so that no curve has two tails.

    All files are cut at the first value of a tag beyond a step. Anything written later, under
    whatever tag and step, belongs to iterations that will be repeated. TensorBoard's own
    ``purge_step`` compares steps, which the libraries count in other units than ours. A running
    TensorBoard needs no notice: it drops a curve's values from the step at which new ones come in
    (tensorboard-data-server 0.7; ``--load_fast=false`` does so when restarted).

    Args:
        folder: The folder of the event files.
        tag: A tag that is written first in every iteration.
        step: The last step of it to keep.
    """
    is_beyond = False
    for path in sorted(folder.glob("events.out.tfevents.*")):
        if is_beyond:
            path.unlink()
            continue
        end = 0
        for event, position in read_events(path):
            tags = {value.tag for value in event.summary.value}
            if tag in tags and event.step > step:
                is_beyond = True
                break
            end = position
        if end < path.stat().st_size:
            logger.debug("Cutting %s from %d to %d bytes.", path, path.stat().st_size, end)
            os.truncate(path, end)


def read_events(path: Path) -> Iterator[tuple[Event, int]]:
    """Yield the complete records of an event file, and the position in bytes after each.

    It stops at the first record that is cut off, as by a kill, or damaged, as by a power cut.

    Raises:
        RunDirectoryError: If it is a pipe, a device or a folder.
    """
    if not path.is_file():  # opening a pipe would block forever
        raise RunDirectoryError(f"{path} is not a regular file. Remove it, or give another folder.")
    reader, position = PyRecordReader_New(str(path)), 0
    while True:
        try:
            reader.GetNext()
            record = reader.record()
            event = Event.FromString(record)
        except (errors.OutOfRangeError, errors.DataLossError, DecodeError):
            return
        position += len(record) + _FRAME
        yield event, position
