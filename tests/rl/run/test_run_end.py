"""What the watchdog leaves in a run directory, whatever the stacks and the disk are like."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from envlab.rl.run import run_end as hung_run
from envlab.rl.run.run_end import REPORT, record_end
from tests.rl.conftest import manifest_of
from tests.rl.fake_run import write_run


@pytest.mark.parametrize("name", ["ascii", "utf-8"])
def test_a_report_of_any_characters_is_written_in_any_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(io, "text_encoding", lambda encoding, stacklevel=2: encoding or name)
    run = write_run(tmp_path, [1.0], status="running")
    record_end(run, "Rank 1 died.", "x → y, and a byte of Latin-1: \udce9")
    report = (run / REPORT).read_text(encoding="utf-8")
    assert "x → y, and a byte of Latin-1: \\udce9" in report
    assert manifest_of(run)["status"] == "failed"


def test_the_manifest_tells_of_the_end_where_the_report_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    run = write_run(tmp_path, [1.0], status="running")
    (run / REPORT).mkdir()
    record_end(run, "Rank 1 died.", "the report")
    assert manifest_of(run)["error"] == "Rank 1 died."
    assert "The end cannot be recorded" in caplog.text


def test_the_report_is_written_where_the_manifest_is_damaged(tmp_path: Path):
    run = write_run(tmp_path, [1.0], status="running")
    (run / "run.json").write_text("{")
    hung_run.record_end(run, "Rank 1 died.", "the report")
    assert "the report" in (run / REPORT).read_text()
