"""Checkpoints: whole or absent, and never executed."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from envlab.distributed.checkpoint import FORMAT_VERSION, load_checkpoint, save_checkpoint
from envlab.errors import CheckpointError


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


def test_values_come_back(tmp_path: Path):
    path = tmp_path / "model.pt"
    save_checkpoint(path, {"a": torch.arange(3), "b": {"c": [1, "x", None]}})
    values = load_checkpoint(path)
    assert values["a"].tolist() == [0, 1, 2]
    assert values["b"] == {"c": [1, "x", None]}
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "model.pt"
    save_checkpoint(path, {"a": 1})
    with pytest.raises(AttributeError):
        save_checkpoint(path, {"a": lambda: None})
    assert load_checkpoint(path)["a"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_one_sentence(tmp_path: Path):
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        load_checkpoint(tmp_path / "model.pt")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float):
    path = tmp_path / "model.pt"
    save_checkpoint(path, {"a": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointError, match=r"truncated|format version"):
        load_checkpoint(path)


@pytest.mark.parametrize("text", [b"hello", b"\x80", b"{}", b"a\nb\nc\n", b"PK\x03\x04junk"])
def test_another_file_is_refused(tmp_path: Path, text: bytes):
    path = tmp_path / "model.pt"
    path.write_bytes(text)
    with pytest.raises(CheckpointError):
        load_checkpoint(path)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_code_in_a_file_does_not_run(tmp_path: Path, writer: str):
    path, touched = tmp_path / "model.pt", tmp_path / "touched"
    values = {"format_version": FORMAT_VERSION, "x": Bomb(touched)}
    if writer == "pickle":
        path.write_bytes(pickle.dumps(values))
    else:
        torch.save(values, path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(path)
    assert not touched.exists()


def test_a_file_without_a_format_version_is_refused(tmp_path: Path):
    torch.save({"model_state_dict": {}}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="holds no format version"):
        load_checkpoint(tmp_path / "model.pt")


def test_a_file_of_a_newer_format_is_refused(tmp_path: Path):
    torch.save({"format_version": FORMAT_VERSION + 1}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="Update envlab"):
        load_checkpoint(tmp_path / "model.pt")
