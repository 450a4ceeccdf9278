"""A disk that is full or refuses writes: the run continues, reports it, and loses nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.interrupt import PREEMPTED_EXIT_CODE
from envlab.learner import IterationRecord
from envlab.run import event_file
from envlab.run.checkpoints import Checkpoints
from envlab.training.metrics import RunMetrics
from tests.disk import no_file_beyond
from tests.launcher import run, torchrun
from tests.trained import SMALL, manifest_of, metrics_of, only_run, signalled, train_in
from tests.training.worker_full_disk import END, FULL_FROM, FULL_TO

WORKER = Path(__file__).with_name("worker_full_disk.py")
GOOD = FULL_FROM - 1
"""The last iteration with a checkpoint before the disk was full."""


def num_points(run: Path) -> int:
    """Return the length of a curve in the event files."""
    accumulator = EventAccumulator(str(run), size_guidance={"scalars": 0})
    return len(accumulator.Reload().Scalars("envlab/wall_s"))


@pytest.mark.filterwarnings("ignore")
def test_a_run_whose_last_checkpoint_is_lost_reports_it_and_fails(tmp_path: Path, capsys):
    """The limit is on file size, which needs no privilege; checkpoints are the largest files."""
    with no_file_beyond(50_000):
        code = train_in(tmp_path, *SMALL, "--max_iterations=3", "agent.save_interval=1")
    assert code == 1
    errors = capsys.readouterr().err
    directory = only_run(tmp_path)
    assert errors.count(".pt could not be written (File too large") == 3
    assert "error: The run is done, but its last checkpoint could not be written" in errors
    manifest = manifest_of(directory)
    assert manifest["status"] == "failed"
    assert "could not be written" in manifest["error"]
    assert [record["iteration"] for record in metrics_of(directory)] == [1, 2, 3]
    assert not list((directory / "checkpoints").iterdir())


REFUSALS = {2: errno.EROFS, 3: errno.EPERM, 4: errno.EACCES, 5: errno.EIO, 6: errno.EDQUOT}
"""The disk's errors, by the iteration at whose end it is written to."""


@pytest.mark.filterwarnings("ignore")
def test_a_disk_that_refuses_is_survived_like_a_full_one(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(event_file, "FLUSH_S", 0.0)
    problem: int | None = None
    reduce, opened = RunMetrics.reduce, Path.open

    def start_writing(metrics: RunMetrics, number: int, *report: Any) -> IterationRecord:
        nonlocal problem
        problem = REFUSALS.get(number)
        return reduce(metrics, number, *report)

    def open_if_allowed(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if problem is not None and mode[0] in "wa":
            raise OSError(problem, os.strerror(problem), str(path))
        return opened(path, mode, *args, **kwargs)

    monkeypatch.setattr(RunMetrics, "reduce", start_writing)
    monkeypatch.setattr(Path, "open", open_if_allowed)
    assert train_in(tmp_path, *SMALL, "--max_iterations=7", "agent.save_interval=1") == 0
    errors = capsys.readouterr().err
    directory = only_run(tmp_path)
    for iteration, number in REFUSALS.items():
        path = directory / f"checkpoints/model_{iteration}.pt"
        assert f"{path} could not be written ({os.strerror(number)}" in errors
    assert "Check that it can be written to again." in errors
    assert Checkpoints(directory / "checkpoints").iterations() == [1, 7]
    assert manifest_of(directory)["status"] == "finished"
    assert [record["iteration"] for record in metrics_of(directory)] == list(range(1, 8))
    assert num_points(directory) == 7


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_is_preempted_without_room_says_that_it_was_not_saved(tmp_path: Path, capsys):
    with no_file_beyond(50_000), signalled(signal.SIGTERM):
        code = train_in(tmp_path, *SMALL, "--max_iterations=9", "agent.save_interval=9")
    assert code == PREEMPTED_EXIT_CODE
    errors = capsys.readouterr().err
    assert "model_2.pt could not be written (File too large" in errors
    assert "Preempted: received SIGTERM, and not saved: the log says why; exit code 75." in errors
    directory = only_run(tmp_path)
    assert manifest_of(directory)["status"] == "preempted"
    assert not list((directory / "checkpoints").iterdir())


def in_a_namespace() -> list[str]:
    """Return a command prefix that gives a program its own mounts, or skip the test."""
    for options in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        command = ["unshare", *options, "--propagation", "private"]
        try_it = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if shutil.which("unshare") and not subprocess.run(try_it, capture_output=True).returncode:
            return command
    pytest.skip("no process here may mount a disk of its own: unshare --mount fails")


class FullDisk(NamedTuple):
    """Two runs of two ranks on a disk that was full for a while, or to their end."""

    left: Path
    code: int
    output: str
    recovered: Path
    lost: Path


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory: pytest.TempPathFactory) -> FullDisk:
    folder = tmp_path_factory.mktemp("full")
    left = folder / "left"
    left.mkdir()
    names = ["--logger=wandb", "--multirun", "agent.run_name=recovered,lost"]
    flags = [*SMALL, "--distributed", f"--max_iterations={END}", "agent.save_interval=1"]
    words = torchrun(2, WORKER, left, *flags, "agent.keep_checkpoints=3", *names)
    # Under a short name: with long ones, a manifest needs more than one block of the disk.
    script = 'mount -t tmpfs -o size=4m tmpfs /mnt && cd /mnt && exec "$@"'
    code, output = run([*in_a_namespace(), "sh", "-c", script, "sh", *words], folder)
    runs = {path.parent.name.rpartition("_")[2]: path.parent for path in left.rglob("run.json")}
    assert runs.keys() == {"recovered", "lost"}, output
    return FullDisk(left, code, output, runs["recovered"], runs["lost"])


@pytest.mark.long  # what it holds of a disk that is full holds of one that refuses, above
def test_a_run_has_no_gap_where_room_came_back(full_disk: FullDisk):
    for iteration in range(FULL_FROM, FULL_TO):
        name = f"{full_disk.recovered.name}/checkpoints/model_{iteration}.pt"
        assert full_disk.output.count(f"{name} could not be written (No space left on device") == 1
    iterations = Checkpoints(full_disk.recovered / "checkpoints").iterations()
    assert iterations == [END - 2, END - 1, END]
    assert manifest_of(full_disk.recovered)["status"] == "finished"
    whole = list(range(1, END + 1))
    assert [record["iteration"] for record in metrics_of(full_disk.recovered)] == whole
    assert num_points(full_disk.recovered) == END
    assert "The disk accepts writes again" in full_disk.output


@pytest.mark.long
def test_written_files_are_whole_where_room_never_came_back(full_disk: FullDisk):
    assert full_disk.code != 0
    assert "exitcode  : 1 " in full_disk.output
    assert "its last checkpoint could not be written" in full_disk.output
    manifest = manifest_of(full_disk.lost)  # whole, and with its last status
    assert manifest["status"] == "failed"
    iterations = [record["iteration"] for record in metrics_of(full_disk.lost)]
    assert iterations == list(range(1, len(iterations) + 1))
    assert len(iterations) >= GOOD
    path, values = Checkpoints(full_disk.lost / "checkpoints").latest()
    assert (path.name, values["iteration"]) == (f"model_{GOOD}.pt", GOOD)
    assert load_checkpoint(full_disk.lost / "checkpoints/latest.pt")["iteration"] == GOOD
    assert not list(full_disk.lost.rglob("*.tmp"))


@pytest.mark.long
def test_two_ranks_have_one_run_of_wandb(full_disk: FullDisk):
    """Checked here because it saves a separate launch."""
    calls = [json.loads(line) for line in (full_disk.left / "wandb.jsonl").open()]
    assert {call["rank"] for call in calls} == {"0"}
    runs = [call for call in calls if call["call"] == "init"]
    assert [run["name"] for run in runs] == [full_disk.recovered.name, full_disk.lost.name]
    assert len({run["id"] for run in runs}) == 2
    assert [call["call"] for call in calls].count("finish") == 2
    steps = [call["step"] for call in calls if call["call"] == "log"]
    assert sorted(set(steps)) == list(range(1, END + 1))
    first = steps[: len(steps) // 2]
    assert first == sorted(first)
