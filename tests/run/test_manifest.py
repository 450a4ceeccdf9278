"""The record of other ranks, and the watchdog, in a run directory of any state."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab.run.manifest import REPORT, record_end
from tests.fake_run import write_run
from tests.trained import manifest_of


def test_a_survivor_records_the_end_that_a_dead_rank_0_cannot_and_no_other(tmp_path: Path):
    run = write_run(tmp_path, [1.0], status="running")
    for message in ("Rank 0 died.", "Rank 0 left before the others."):  # the first one stays
        record_end(run, message)
        assert manifest_of(run)["status"] == "failed"
        assert manifest_of(run)["error"] == "Rank 0 died."
    assert not (run / REPORT).exists()


def test_a_report_of_any_characters_is_written(tmp_path: Path):
    run = write_run(tmp_path, [1.0], status="running")
    record_end(run, "Rank 1 died.", "x → y, and a byte of Latin-1: \udce9")
    report = (run / REPORT).read_text(encoding="utf-8")
    assert "x → y, and a byte of Latin-1: \\udce9" in report
    assert manifest_of(run)["status"] == "failed"


def test_the_end_is_recorded_where_either_file_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    run = write_run(tmp_path, [1.0], status="running")
    (run / REPORT).mkdir()
    record_end(run, "Rank 1 died.", "the report")
    assert manifest_of(run)["error"] == "Rank 1 died."
    assert "The end cannot be recorded" in caplog.text
    (run / REPORT).rmdir()
    (run / "run.json").write_text("{")
    record_end(run, "Rank 1 died.", "the report")
    assert "the report" in (run / REPORT).read_text()
