"""The folder of checkpoints: the ones kept, the ones its names point to, and the one chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.distributed.checkpoint import FORMAT_VERSION, load_checkpoint, save_checkpoint
from envlab.errors import CheckpointError
from envlab.run.checkpoints import Checkpoints
from tests.disk import no_file_beyond

LARGE = {"weights": torch.zeros(100_000)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run/checkpoints"
    folder.mkdir(parents=True)
    return folder


def save(checkpoints: Checkpoints, iteration: int, *, is_best: bool = False, **more: Any) -> None:
    values = {"iteration": iteration, **more}
    assert checkpoints.save(iteration, values, is_best=is_best) == checkpoints.path(iteration)


def iteration_of(path: Path) -> int:
    return int(load_checkpoint(path)["iteration"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_are_kept_and_the_best_whatever_its_age(folder: Path):
    checkpoints = Checkpoints(folder, keep=2)
    for iteration in range(1, 6):
        save(checkpoints, iteration, is_best=iteration == 2)
    assert names(folder) == ["best.pt", "latest.pt", "model_4.pt", "model_5.pt"]
    assert iteration_of(folder / "best.pt") == 2
    assert iteration_of(folder / "latest.pt") == 5


def test_the_names_cost_no_room_and_are_copies_where_there_are_no_links(folder: Path, monkeypatch):
    def link(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")  # a FAT disk's error

    checkpoints = Checkpoints(folder, keep=1)
    save(checkpoints, 1, is_best=True)
    assert len({path.stat().st_ino for path in folder.iterdir()}) == 1
    monkeypatch.setattr(os, "link", link)
    save(checkpoints, 2, is_best=True)
    save(checkpoints, 3)
    assert names(folder) == ["best.pt", "latest.pt", "model_3.pt"]
    assert (iteration_of(folder / "best.pt"), iteration_of(folder / "latest.pt")) == (2, 3)


def test_the_best_is_not_removed_before_its_name_could_be_written(
    folder: Path, monkeypatch, caplog: pytest.LogCaptureFixture
):
    def link(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    checkpoints = Checkpoints(folder, keep=1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        save(checkpoints, 1, is_best=True)
    assert "could not be named best.pt (No space left on device" in caplog.text
    for iteration in (2, 3):
        save(checkpoints, iteration)
    assert names(folder) == ["latest.pt", "model_1.pt", "model_3.pt"]


def test_a_full_disk_is_logged_each_time_and_costs_no_earlier_checkpoint(
    folder: Path, caplog: pytest.LogCaptureFixture
):
    checkpoints = Checkpoints(folder, keep=1)
    save(checkpoints, 1, is_best=True)
    with no_file_beyond(10_000):
        for iteration in (2, 3):
            values = {"iteration": iteration, **LARGE}
            assert checkpoints.save(iteration, values, is_best=True) is None
    assert names(folder) == ["best.pt", "latest.pt", "model_1.pt"]
    assert {iteration_of(path) for path in folder.iterdir()} == {1}
    messages = [entry.message for entry in caplog.records]
    assert len(messages) == 2
    for text, name in zip(messages, ("model_2.pt", "model_3.pt"), strict=True):
        assert f"{folder / name} could not be written (File too large; " in text
        assert "MiB are free" in text
        assert f"the last good one is {folder / 'model_1.pt'}" in text
        assert "Free some space" in text
    save(checkpoints, 4, **LARGE)  # there is room again
    assert names(folder) == ["best.pt", "latest.pt", "model_4.pt"]


def test_the_watchdog_sees_a_checkpoint_being_written(folder: Path):
    """Otherwise, the watchdog would take a large one on a slow disk for a hang."""
    counts: list[int] = []
    checkpoints = Checkpoints(folder, moved=lambda: counts.append(len(list(folder.glob(".*.tmp")))))
    save(checkpoints, 1)
    assert len(counts) > 2
    assert set(counts) == {1}  # while it is under way


def test_a_folder_that_was_removed_is_made_again_and_leftovers_are_removed(folder: Path):
    folder.rmdir()
    save(Checkpoints(folder), 1)
    (folder / ".model_1.pt.4711.tmp").write_bytes(bytes(100))  # of a killed process
    save(Checkpoints(folder), 2)
    assert names(folder) == ["latest.pt", "model_1.pt", "model_2.pt"]
    assert iteration_of(folder / "latest.pt") == 2


def test_a_continued_run_keeps_the_best_that_its_checkpoint_knows(folder: Path, tmp_path: Path):
    before = Checkpoints(tmp_path / "before")
    save(before, 3, is_best=True, metrics={"best_return": 2.0})
    for known in (1.0, None):
        assert not Checkpoints(folder).keep_best_of(before.folder, known)
        assert names(folder) == []
    assert not Checkpoints(folder).keep_best_of(tmp_path, 2.0)  # where there is none
    for known in (2.0, None):  # once it exists, it stays
        assert Checkpoints(folder).keep_best_of(before.folder, known)
        assert names(folder) == ["best.pt"]


def test_files_are_found_by_name_and_the_latest_by_its_iteration(folder: Path):
    checkpoints = Checkpoints(folder)
    for iteration in (10, 9):
        save(checkpoints, iteration, is_best=iteration == 9)
    (folder / ".model_11.pt.7.tmp").touch()
    assert checkpoints.latest()[0].name == "model_10.pt"
    assert checkpoints.find("best")[0].name == "best.pt"
    assert checkpoints.find("model_9.pt")[1]["iteration"] == 9
    with pytest.raises(CheckpointError, match=r"'model_3.pt'; .* \[9, 10\]"):
        checkpoints.find("model_3.pt")


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(torch.ones(8).numpy().tobytes())] ^= 1
    path.write_bytes(data)


DAMAGES = [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:-100]),
    lambda path: path.write_bytes(b"\x80\x04]\x94."),
    lambda path: torch.save({"format_version": FORMAT_VERSION + 1}, path),
    lambda path: save_checkpoint(path, {"iteration": 3, "task": "other"}),
    flipped,
]


def accept(values: Mapping[str, Any], path: Path) -> None:
    if values.get("task") != "mine":
        raise CheckpointError(f"The checkpoint {path} is of the task {values.get('task')!r}.")


@pytest.fixture
def three(folder: Path) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    for iteration in (1, 2, 3):
        (folder / "latest.pt").unlink(missing_ok=True)
        save(checkpoints, iteration, weights=torch.ones(8), task="mine")
    return checkpoints


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_newest_that_is_good_is_taken_and_one_that_was_named_is_refused(three, damage, caplog):
    damage(three.path(3))
    path, values = three.latest(accept)
    assert (path, values["iteration"]) == (three.path(2), 2)
    assert f"Skipped a checkpoint: The checkpoint {three.path(3)}" in caplog.text
    assert f"Taking {three.path(2)} (iteration 2)" in caplog.text
    with pytest.raises(CheckpointError, match=r"model_3\.pt"):
        three.find("model_3.pt", accept)
    assert three.find("model_2.pt", accept)[0] == three.path(2)


def test_nothing_is_logged_where_nothing_is_wrong(three, caplog):
    assert three.find("latest", accept)[0] == three.path(3)
    assert not caplog.records


def test_the_best_is_the_last_resort(folder: Path, caplog: pytest.LogCaptureFixture):
    checkpoints = Checkpoints(folder, keep=1)
    save(checkpoints, 1, is_best=True)
    save(checkpoints, 2)
    checkpoints.path(2).write_bytes(b"")
    path, values = checkpoints.latest()
    assert (path.name, values["iteration"]) == ("best.pt", 1)
    assert "(iteration 1)" in caplog.text


def test_where_none_is_good_the_newest_ones_fault_is_reported(folder: Path):
    checkpoints = Checkpoints(folder)
    with pytest.raises(CheckpointError, match="There is no checkpoint in"):
        checkpoints.latest()
    with pytest.raises(CheckpointError, match=r"no checkpoint 'best'; .* iterations none"):
        checkpoints.find("best")
    save(checkpoints, 1, task="other")
    with pytest.raises(CheckpointError, match=r"^The checkpoint .* is of the task 'other'\.$"):
        checkpoints.latest(accept)
    for iteration in (1, 2, 3):
        checkpoints.path(iteration).write_bytes(b"")
    (folder / "latest.pt").unlink()
    with pytest.raises(CheckpointError, match=r"None of the 3 checkpoints .*model_3\.pt cannot"):
        checkpoints.latest()


def test_a_run_resumed_before_a_damaged_file_keeps_its_new_checkpoints(three):
    three.path(3).write_bytes(b"")
    checkpoints = Checkpoints(three.folder, keep=1)
    save(checkpoints, 2, task="mine")
    assert checkpoints.iterations() == [2, 3]
    assert checkpoints.latest(accept)[0] == three.path(2)
