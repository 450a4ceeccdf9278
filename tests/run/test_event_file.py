"""Event files: read by TensorBoard, not broken by a full disk, with one tail after a restart."""

from __future__ import annotations

import io
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

from envlab.run import event_file
from envlab.run.event_file import EventFile, cut_events, read_events
from tests.disk import no_file_beyond


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """Return steps and values as TensorBoard reads them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(tag)]


def whole_record(data: bytes) -> bytes:
    file = io.BytesIO()
    RecordWriter(file).write(data)
    return file.getvalue()


def write(folder: Path, iterations: range, frames: int = 10) -> Path:
    """Write a run's iterations: our own tag over frames, then a library's over iterations."""
    events = EventFile(folder)
    for iteration in iterations:
        events.add(iteration * frames, {"envlab/wall_s": float(iteration)})
        events.add(iteration, {"loss": 1.0 / iteration, "reward": float(iteration)})
    events.close()
    return max(folder.iterdir())


def test_tensorboard_reads_the_values_also_during_the_run(tmp_path: Path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    write(tmp_path / "a", range(1, 4))
    assert curve(tmp_path / "a", "envlab/wall_s") == [(10, 1.0), (20, 2.0), (30, 3.0)]
    assert curve(tmp_path / "a", "reward") == [(1, 1.0), (2, 2.0), (3, 3.0)]
    monkeypatch.setattr(event_file, "FLUSH_S", 0.0)
    EventFile(tmp_path / "b").add(1, {"a": 1.0})
    assert curve(tmp_path / "b", "a") == [(1, 1.0)]


def test_a_full_disk_holds_values_back_and_breaks_nothing(tmp_path: Path):
    events = EventFile(tmp_path)
    events.add(1, {"a": 1.0})
    events.flush()
    (path,) = tmp_path.iterdir()
    with no_file_beyond(path.stat().st_size + 10):
        events.add(2, {"a": 2.0})
        events.flush()
        assert curve(tmp_path, "a") == [(1, 1.0)]
    events.add(3, {"a": 3.0})
    events.close()
    assert curve(tmp_path, "a") == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_run_that_went_back_has_one_tail(tmp_path: Path):
    """In every tag, whatever its steps count, and over two earlier restarts."""
    for kept in [0, 3, 4, 5, 9]:
        write(tmp_path, range(1, 6))
        cut_events(tmp_path, "envlab/wall_s", 40)
        write(tmp_path, range(5, 10))
        cut_events(tmp_path, "envlab/wall_s", kept * 10)
        write(tmp_path, range(kept + 1, 12))
        assert curve(tmp_path, "reward") == [(number, float(number)) for number in range(1, 12)]
        assert [step for step, _ in curve(tmp_path, "envlab/wall_s")] == list(range(10, 120, 10))


def test_half_a_record_and_garbage_are_cut_off(tmp_path: Path):
    path = write(tmp_path, range(1, 4))
    whole = path.read_bytes()
    for garbage in [
        bytes(64),  # a power cut leaves zeros
        b"\xff" * 64,
        whole_record(b"\xff" * 8),  # whole, but no event
    ]:
        path.write_bytes(whole + garbage)
        cut_events(tmp_path, "envlab/wall_s", 1000)
        assert path.read_bytes() == whole
    path.write_bytes(whole[:-5])  # by a kill
    assert len(list(read_events(path))) == 1 + 5
    cut_events(tmp_path, "envlab/wall_s", 1000)
    assert whole.startswith(path.read_bytes())
    assert len(whole) - 100 < path.stat().st_size < len(whole) - 5
