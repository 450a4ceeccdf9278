"""Checkpoints: whole or absent, and never executed."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from envlab.distributed.checkpoint import FORMAT_VERSION, load_checkpoint, save_checkpoint
from envlab.errors import CheckpointError
from tests.disk import no_file_beyond


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


def test_a_missing_file_and_other_formats_are_one_sentence(tmp_path: Path):
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        load_checkpoint(tmp_path / "model.pt")
    torch.save({"model_state_dict": {}}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="holds no format version"):
        load_checkpoint(tmp_path / "model.pt")
    torch.save({"format_version": FORMAT_VERSION + 1}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="Update envlab"):
        load_checkpoint(tmp_path / "model.pt")


def test_a_truncated_file_is_refused(tmp_path: Path):
    for share in (0.0, 0.01, 0.5, 0.99):
        path = tmp_path / "model.pt"
        save_checkpoint(path, {"a": torch.zeros(1000)})
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
        with pytest.raises(CheckpointError, match=r"truncated|format version"):
            load_checkpoint(path)


def test_no_truncated_or_flipped_file_is_read_as_something_else(tmp_path: Path):
    """At each length, and with a bit flipped in each byte: refused, or its values are untouched.

    ``torch.load`` alone reads a flipped bit in a tensor as another number.
    """
    path, damaged = tmp_path / "model.pt", tmp_path / "damaged.pt"
    weights = torch.arange(64.0)
    save_checkpoint(path, {"weights": weights, "iteration": 7})
    whole = path.read_bytes()
    cut = [whole[:length] for length in range(0, len(whole), 7)]
    flipped = [
        whole[:index] + bytes([whole[index] ^ 1 << index % 8]) + whole[index + 1 :]
        for index in range(0, len(whole), 3)
    ]
    num_read = 0
    for data in (*cut, *flipped):
        damaged.write_bytes(data)
        try:
            values = load_checkpoint(damaged)
        except CheckpointError:
            continue
        num_read += 1  # padding between the parts, and dates
        assert torch.equal(values["weights"], weights)
        assert values["iteration"] == 7
        assert len(data) == len(whole)
    assert num_read < len(flipped)
    start = whole.index(weights.numpy().tobytes())
    damaged.write_bytes(whole[:start] + b"\x01" + whole[start + 1 :])
    assert not torch.equal(torch.load(damaged)["weights"], weights)  # hence the checksums
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(damaged)


def test_a_full_disk_is_an_os_error_and_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "model.pt"
    save_checkpoint(path, {"a": 1})
    with no_file_beyond(10_000), pytest.raises(OSError, match="File too large"):
        save_checkpoint(path, {"a": torch.zeros(100_000)})
    assert load_checkpoint(path)["a"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_another_file_is_refused(tmp_path: Path):
    for text in (b"hello", b"\x80", b"{}", b"a\nb\nc\n", b"PK\x03\x04junk"):
        path = tmp_path / "model.pt"
        path.write_bytes(text)
        with pytest.raises(CheckpointError):
            load_checkpoint(path)


def test_code_in_a_file_does_not_run(tmp_path: Path):
    for writer in ("pickle", "torch"):
        path, touched = tmp_path / "model.pt", tmp_path / "touched"
        values = {"format_version": FORMAT_VERSION, "x": Bomb(touched)}
        if writer == "pickle":
            path.write_bytes(pickle.dumps(values))
        else:
            torch.save(values, path)
        with pytest.raises(CheckpointError, match="cannot be read"):
            load_checkpoint(path)
        assert not touched.exists()
