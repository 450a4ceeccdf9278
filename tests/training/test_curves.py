"""Curves at a service: one run, continued after a resume, whose failures never end ours."""

from __future__ import annotations

import importlib
import json
import sqlite3
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from envlab.config import write_yaml
from envlab.training.curves import open_curves
from tests.launcher import TRAIN, run
from tests.trained import SMALL, train_in


class FakeWandb(SimpleNamespace):
    """The part of the wandb package that we use, on the client's side."""

    def __init__(self) -> None:
        super().__init__(runs=[], rows=[], saved=[], finished=0, error=None, __spec__=object())

    def init(self, **options: Any) -> None:
        self.runs.append(options)

    def define_metric(self, name: str, **options: Any) -> None: ...

    def log(self, values: dict[str, float], step: int) -> None:
        if self.error is not None:
            raise self.error
        self.rows.append((step, values))

    def save(self, path: str, *, base_path: str, policy: str) -> None:
        self.saved.append(Path(path).relative_to(base_path).as_posix())

    def finish(self) -> None:
        if self.error is not None:
            raise self.error
        self.finished += 1


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)  # type: ignore[arg-type]
    for name in ("RUN_ID", "RESUME", "PROJECT", "ENTITY", "USERNAME", "DIR"):
        monkeypatch.delenv(f"WANDB_{name}", raising=False)
    return fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "logs/rsl_rl/cartpole/2030-01-01_00-00-00"
    folder.mkdir(parents=True)
    return folder


def test_a_run_of_wandb_is_named_after_ours_and_continued_by_its_id(wandb, folder: Path):
    first = open_curves("wandb", folder)
    first.close()
    again = open_curves("wandb", folder, service_id=first.service_id)
    assert again.service_id == first.service_id
    run, resumed = wandb.runs
    assert (run["project"], run["name"]) == ("cartpole", folder.name)
    assert (run["id"], run["resume"]) == (first.service_id, "allow")
    assert (resumed["id"], resumed["resume"]) == (first.service_id, "allow")
    assert resumed["name"] is None  # it keeps its own
    assert wandb.finished == 1
    assert open_curves("wandb", folder).service_id != first.service_id


def test_wandbs_own_variables_win(wandb, folder: Path, monkeypatch):
    monkeypatch.setenv("WANDB_RUN_ID", "mine")
    monkeypatch.setenv("WANDB_RESUME", "must")
    assert open_curves("wandb", folder, service_id="other").service_id == "mine"
    (run,) = wandb.runs
    assert (run["id"], run["resume"]) == ("mine", "must")


def test_the_step_is_the_iteration_whatever_a_tag_counts(wandb, folder: Path):
    """W&B drops values with a smaller step than before, such as alternating frames and
    iterations."""
    curves = open_curves("wandb", folder)
    for iteration in (1, 2):
        curves.start_iteration(iteration, iteration * 1000)
        curves.add(iteration * 1000, {"envlab/fps": 5.0, "absent": None})
        curves.add(iteration, {"Loss/value": 0.5})
    assert [step for step, _ in wandb.rows] == [1, 1, 1, 2, 2, 2]
    row = dict(item for step, values in wandb.rows if step == 2 for item in values.items())
    assert row == {"envlab/frames": 2000.0, "envlab/fps": 5.0, "Loss/value": 0.5}


def test_a_service_that_fails_does_not_end_the_run(wandb, folder: Path, caplog):
    curves = open_curves("wandb", folder)
    wandb.error = ConnectionError("no route to host")
    for iteration in (1, 2):
        curves.start_iteration(iteration, iteration)
        curves.add(iteration, {"a": 1.0})
    (message,) = [entry.message for entry in caplog.records]
    assert "did not take the values of iteration 1 (ConnectionError: no route to host)" in message
    wandb.error = None
    curves.start_iteration(3, 3)
    assert wandb.rows == [(3, {"envlab/frames": 3.0})]
    wandb.error = ConnectionError("no route to host")
    curves.close()
    assert "did not take the end of the run (ConnectionError" in caplog.records[-1].message


def test_a_resumed_run_continues_the_same_run_of_wandb(wandb, tmp_path: Path):
    """So does a run resumed from it, whose checkpoints hold the id again."""
    flags = [*SMALL, "--logger=wandb"]
    for number in (1, 2, 3):
        more = ["--resume"] if number > 1 else []
        assert train_in(tmp_path, *flags, f"--max_iterations={number}", *more) == 0
    assert len({run["id"] for run in wandb.runs}) == 1
    assert [run["resume"] for run in wandb.runs] == ["allow"] * 3
    assert wandb.finished == 3
    manifests = [json.loads(path.read_text()) for path in tmp_path.glob("logs/*/*/*/run.json")]
    assert [manifest["services"] for manifest in manifests] == [{"wandb": wandb.runs[0]["id"]}] * 3
    steps = [step for step, _ in wandb.rows]
    assert steps == sorted(steps)
    assert set(steps) == {1, 2, 3}
    assert {"run.json", "params/env.yaml", "checkpoints/model_3.pt"} <= set(wandb.saved)
    values = {name for _, row in wandb.rows for name in row}
    assert values >= {"envlab/frames", "envlab/mean_return", "Loss/value"}


def test_project_and_entity_are_flags_before_variables(wandb, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "of the variable")
    flags = [*SMALL, "--max_iterations=1", "--logger=wandb", "--wandb_entity=team"]
    assert train_in(tmp_path, *flags) == 0
    assert train_in(tmp_path, *flags, "--log_project_name=robots") == 0
    assert [run["project"] for run in wandb.runs] == ["of the variable", "robots"]
    assert [run["entity"] for run in wandb.runs] == ["team", "team"]


def test_a_service_that_cannot_be_opened_is_one_sentence_and_the_run_continues(
    wandb, folder: Path, caplog, monkeypatch
):
    for error, sentence in (
        (
            ValueError("No API key configured.\nMore\nlines"),
            "No API key configured. The run continues without it; metrics.jsonl and the event "
            "files have all values. Log in with 'wandb login' or WANDB_API_KEY, or set "
            "WANDB_MODE=offline.",
        ),
        (ConnectionError("no route to host"), "cannot be opened: no route to host."),
        (ModuleNotFoundError("No module named 'wandb'"), "Install it with: pip install wandb"),
    ):
        caplog.clear()
        monkeypatch.setattr(wandb, "init", mock.Mock(side_effect=error))
        open_curves("wandb", folder).close()
        (message,) = [record.getMessage() for record in caplog.records]
        assert "--logger wandb cannot be opened" in message
        assert sentence in message


@pytest.mark.long
def test_a_run_of_mlflow_is_continued_with_its_own_steps(folder: Path, tmp_path: Path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow: pip install -e '.[trackers]'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    write_yaml(folder / "params/agent.yaml", {"max_iterations": 2})
    write_yaml(folder / "params/env.yaml", {"decimation": 4})
    first = open_curves("mlflow", folder, project="robots")
    for iteration in (1, 2):
        first.start_iteration(iteration, 512 * iteration)
        first.add(512 * iteration, {"envlab/mean_return": 0.5, "absent": None})
    first.close()
    again = open_curves("mlflow", folder, service_id=first.service_id)
    again.start_iteration(3, 3 * 512)
    again.close()
    client = mlflow.MlflowClient()
    run = client.get_run(first.service_id)
    assert client.get_experiment(run.info.experiment_id).name == "robots"
    assert (run.info.run_name, run.info.status) == (folder.name, "FINISHED")
    assert run.data.params == {"agent.max_iterations": "2", "env.decimation": "4"}
    assert set(run.data.metrics) == {"envlab/frames", "envlab/mean_return"}
    history = client.get_metric_history(first.service_id, "envlab/frames")
    assert [(entry.step, entry.value) for entry in history] == [(n, 512.0 * n) for n in (1, 2, 3)]


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
