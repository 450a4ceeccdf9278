"""TensorBoard's event files, written so that a full disk does not end the run.

TensorBoard's own writer (2.20) writes in a thread that dies of a full disk, and every later value
raises what it died of.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.summary.writer.record_writer import RecordWriter

from envlab.distributed.disk import RecordFile

logger = logging.getLogger(__name__)

FLUSH_S = 10.0
"""How long values may wait in memory, in seconds."""
_HEADER, _FOOTER = 12, 4
"""Bytes around a record: its length and the check sum of that; its own check sum."""
_numbers = itertools.count()


class EventFile:
    """Appends scalars to a new event file in a folder."""

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        """Write the beginning of the file.

        Args:
            folder: Where it goes.
            purge_step: A run that went back to an earlier iteration gives the step that it writes
                next: a TensorBoard that is running drops what it has seen from there on.
        """
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._file = RecordFile(folder / f"{name}.{next(_numbers):06d}", "TensorBoard's curves")
        self._last_flush = time.monotonic()
        self._append(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._append(Event(wall_time=time.time(), step=purge_step, session_log=start))
        self._file.flush()

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add values by tag, all at one step of their curves."""
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        if time.monotonic() - self._last_flush > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write what waits in memory."""
        self._last_flush = time.monotonic()
        self._file.flush()

    def close(self) -> None:
        """Write what waits in memory; the last chance."""
        self.flush()

    def _append(self, event: Event) -> None:
        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        self._file.append(record.getvalue(), flush=False)


def cut_events(folder: Path, tag: str, step: int) -> None:
    """Cut a folder's event files back to where a run goes on from, so that no curve has two tails.

    All files are cut at the first value of a tag beyond a step: what was written later, under
    whatever tag and step, is of the iterations that will be done again.

    Args:
        folder: Where they lie.
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
    """Yield the whole records of an event file, and the position in bytes after each.

    It ends before the first one that is cut off, as by a kill, or damaged, as by a power cut.
    """
    data = path.read_bytes()
    position = 0
    while position + _HEADER <= len(data):
        length, check_sum = struct.unpack_from("<QI", data, position)
        end = position + _HEADER + length + _FOOTER
        if end > len(data) or check_sum != masked_crc32c(data[position : position + 8]):
            return
        try:
            event = Event.FromString(data[position + _HEADER : end - _FOOTER])
        except DecodeError:
            return
        yield event, end
        position = end
