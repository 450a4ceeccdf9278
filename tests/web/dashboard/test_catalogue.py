"""The runs that are listed; a thousand in a moment."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from envlab_web.dashboard import catalogue
from envlab_web.dashboard.catalogue import Catalogue
from tests.web.dashboard.logs import write_run


@pytest.mark.long
def test_a_thousand_runs_are_listed_within_a_second_of_this_process(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(catalogue, "FRESH_S", 0.0)
    first = write_run(tmp_path, "Isaac-Ant-v0", name="run_0", iterations=200)
    files = {name: (first / name).read_bytes() for name in ("metrics.jsonl", "heartbeats.json")} | {
        "run.json": (first / "run.json").read_bytes()
    }
    for number in range(1, 1000):
        directory = first.with_name(f"run_{number}")
        (directory / "checkpoints").mkdir(parents=True)
        for name, text in files.items():
            (directory / name).write_bytes(text)
    runs, spent = Catalogue(tmp_path), []
    for _ in range(3):
        before = time.process_time()
        rows = [json.dumps(vars(run.row)) + run.trouble() for run in runs.runs().values()]
        spent.append(time.process_time() - before)
    print(f"1000 runs: {spent[0]:.2f} s of CPU time when all are new, then {min(spent[1:]):.2f} s")
    assert len(rows) == 1000
    assert min(spent[1:]) < 1.0
    assert spent[0] < 3.0


def test_what_wandb_keeps_of_a_run_is_not_listed(tmp_path: Path):
    run = write_run(tmp_path, "Isaac-Ant-v0", name="a", iterations=2)
    copy = run / "wandb/offline-run-20261128_041500-abc/files"
    copy.mkdir(parents=True)
    shutil.copy(run / "run.json", copy)
    assert [found.directory for found in Catalogue(tmp_path).runs().values()] == [run.resolve()]
