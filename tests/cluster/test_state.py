"""Unreadable state files do not get in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab_cluster.state import all_runs, find_run
from tests.cluster.runs import run_on


def test_updates_of_a_run_that_was_killed_meanwhile_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = run_on(id="20260101-000000-aaaa")
    run.save()
    run.status = "ended"
    run.update()
    assert find_run(None).status == "ended"
    run.forget()
    run.update()
    assert all_runs() == []


def test_a_damaged_file_is_reported_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = run_on(id="20260101-000000-aaaa")
    run.save()
    for number, text in enumerate(("{", "[]", '{"version": 99}', "")):
        (run.file.parent / f"20270101-00000{number}-bbbb.json").write_text(text)
    assert all_runs() == [run]
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 4
    assert "envlab cluster kill --run 20270101-000003-bbbb --runs_on HOST,..." in warnings[0]
    assert find_run(None) == run
