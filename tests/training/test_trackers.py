"""Trackers by their own clients, offline, in whole runs: what they read back is ours.

By day, test_curves.py has its own wandb, and mlflow without a run.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launcher import TRAIN, run
from tests.trained import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.long]

TAGS = {"envlab/frames", "envlab/mean_return", "Loss/value", "Loss/learning_rate"}


def train_twice(folder: Path, tracker: str) -> dict[str, Any]:
    """Train two iterations, resume for a third, and return the tracker's name for the run."""
    pytest.importorskip(tracker, reason=f"needs {tracker}: pip install -e '.[trackers]'")
    flags = [*SMALL, f"--logger={tracker}", "--log_project_name=robots", "agent.save_interval=1"]
    for more in (["--max_iterations=2"], ["--max_iterations=3", "--resume"]):
        code, output = run(
            [sys.executable, TRAIN, *flags, *more], folder
        )  # W&B's service outlives a run
        assert code == 0, output
    manifests = [json.loads(path.read_text()) for path in folder.glob("logs/*/*/*/run.json")]
    names = [manifest["services"] for manifest in manifests]
    assert len(names) == 2
    assert names[0] == names[1]
    return names[0]


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    name = train_twice(tmp_path, "wandb")["wandb"]
    first, second = sorted(tmp_path.glob("logs/*/*/*/wandb/offline-run-*"))
    for folder in (first, second):
        assert folder.name.endswith(name)
    records = list(_wandb_records(next(second.glob("*.wandb"))))
    (run,) = (record.run for record in records if record.HasField("run"))
    assert run.project == "robots"
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["agent"]["max_iterations"] == 3
    rows = [
        {
            "/".join(item.nested_key) or item.key: json.loads(item.value_json)
            for item in record.history.item
        }
        for record in records
        if record.HasField("history")
    ]
    assert [row["_step"] for row in rows] == [3]
    assert set(rows[0]) >= TAGS
    kept = {path.relative_to(second / "files").as_posix() for path in second.rglob("*.pt")}
    assert "checkpoints/model_3.pt" in kept


def _wandb_records(path: Path) -> Iterator[Any]:
    """Yield an offline run's records: protocol buffers in LevelDB's log format."""
    record_pb2 = importlib.import_module("wandb.proto.wandb_internal_pb2")
    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:  # no room for a header at a block's end
            at += left
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or a record's last part
            yield record_pb2.Record.FromString(whole)
            whole = b""


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    name = train_twice(tmp_path, "trackio")["trackio"]
    with sqlite3.connect(tmp_path / "trackio" / "robots.db") as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id")
        records = [(run, step, json.loads(values)) for run, step, values in rows]
    assert {run for run, _, _ in records} == {name}
    assert sorted({step for _, step, _ in records}) == [1, 2, 3]
    assert {tag for _, _, values in records for tag in values} >= TAGS
