"""A run's records: read at once or followed, with damage by a kill or untrusted content."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from envlab.errors import RunDirectoryError
from envlab.run.records import METRICS, Records, cut_metrics, line_of, number_at

LINES = [
    line_of({"iteration": number, "frames": 100 * number, "wall_s": 0.5}) for number in (1, 2, 3)
]


def write(folder: Path, *lines: bytes) -> Records:
    path = folder / METRICS
    path.write_bytes(b"".join(lines))
    return Records(path)


def iterations(records: Records) -> Sequence[int]:
    return [record["iteration"] for record in records.read()]


def test_a_file_is_followed_and_a_line_counts_when_it_is_whole(tmp_path: Path):
    records = Records(tmp_path / METRICS)
    assert iterations(records) == []
    with records.path.open("ab", buffering=0) as file:
        for text, new, is_cut in (
            (LINES[0] + LINES[1][:20], [1], True),
            (LINES[1][20:-1], [], True),
            (b"\n", [2], False),
            (LINES[2], [3], False),
        ):
            file.write(text)
            assert (iterations(records), records.is_cut) == (new, is_cut)
    assert records.end == records.path.stat().st_size


def test_a_line_whose_rest_is_written_while_it_is_read_is_no_damage(tmp_path: Path, monkeypatch):
    records = write(tmp_path, LINES[0])
    monkeypatch.setattr(records, "lines", lambda: iter([LINES[0][:9], LINES[0][9:]]))
    assert iterations(records) == []
    monkeypatch.undo()
    assert iterations(records) == [1]


def test_a_last_line_that_is_no_record_does_not_count(tmp_path: Path):
    for end in [
        *(b'{"iteration": 3, "fra', b"null\n", b'{"iteration": 3, "frames": 300}\n', b"[" * 50_000),
        *(LINES[2][:-1], LINES[2].replace(b"300", b"9" * 400), LINES[2].replace(b"300", b"1e999")),
        *(LINES[2].replace(b"300", b'"300"'), b"\xff\n", b"[]\n", b"\0\0\0\n"),
    ]:
        records = write(tmp_path, *LINES[:2], end)
        assert iterations(records) == [1, 2]
        assert records.is_cut
        assert records.end == len(LINES[0] + LINES[1])


def test_any_other_line_that_is_no_record_is_named(tmp_path: Path):
    for line in [b"{\n", b"{}\n", b"null\n", b"\n"]:
        records = write(tmp_path, LINES[0], line, LINES[1])
        with pytest.raises(RunDirectoryError, match=r"Line 2 of .*metrics\.jsonl is not a record"):
            iterations(records)


def test_endless_and_huge_files_are_refused(tmp_path: Path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunDirectoryError, match="not a regular file"):
        iterations(Records(tmp_path / "pipe"))
    monkeypatch.setattr("envlab.run.records.MOST_BYTES", len(LINES[0]))
    followed = write(tmp_path, LINES[0])
    assert iterations(followed) == [1]
    write(tmp_path, *LINES[:2])
    assert iterations(followed) == [2]  # earlier bytes do not count
    with pytest.raises(RunDirectoryError, match="bytes, more than"):
        iterations(Records(tmp_path / METRICS))


def test_metrics_are_cut_to_the_iterations_that_are_not_repeated(tmp_path: Path):
    for end in [b'{"iterat', b"\0\n\0\n"]:
        for iteration, kept in [(0, []), (2, [1, 2]), (9, [1, 2, 3])]:
            write(tmp_path, *LINES, end)
            cut_metrics(tmp_path, iteration)
            assert (tmp_path / METRICS).read_bytes() == b"".join(LINES[: len(kept)])
    (tmp_path / METRICS).unlink()
    cut_metrics(tmp_path, 3)  # there may be none
    assert not (tmp_path / METRICS).exists()


def test_a_number_is_finite_and_has_a_dotted_name():
    values = {"a": 1, "b": {"c/d": 2.0}, "e": math.inf, "f": True}
    numbers = {
        name: number_at(values, name) for name in ("a", "b.c/d", *("b", "a.c", "e", "f", "g"))
    }
    assert numbers == {"a": 1, "b.c/d": 2.0} | dict.fromkeys(("b", "a.c", "e", "f", "g"))


def test_a_line_has_null_where_json_has_no_number():
    line = line_of({"losses": {"value": math.nan}, "frames": 3})
    assert json.loads(line) == {"losses": {"value": None}, "frames": 3}
    assert line.endswith(b"}\n")
