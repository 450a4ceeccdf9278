"""Checkpoints: whole or absent, and never executed."""

from __future__ import annotations

import pickle
import re
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


def test_a_missing_file_and_other_formats_are_one_sentence(tmp_path: Path):
    for values, words in [
        (None, "There is no checkpoint"),
        ({"model_state_dict": {}}, "has no format version"),
        ({"format_version": FORMAT_VERSION + 1}, "Update envlab"),
    ]:
        if values is not None:
            torch.save(values, tmp_path / "model.pt")
        with pytest.raises(CheckpointError, match=words):
            load_checkpoint(tmp_path / "model.pt")


def test_no_truncated_flipped_or_foreign_file_is_read_as_something_else(tmp_path: Path):
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
    foreign = [b"hello", b"\x80", b"{}", b"a\nb\nc\n", b"PK\x03\x04junk"]
    num_read, refusals = 0, []
    for data in (*cut, *flipped, *foreign):
        damaged.write_bytes(data)
        try:
            values = load_checkpoint(damaged)
        except CheckpointError as error:
            refusals.append(str(error))
            continue
        num_read += 1  # padding between the parts, and dates
        assert torch.equal(values["weights"], weights)
        assert values["iteration"] == 7
        assert len(data) == len(whole)
    assert num_read < len(flipped)
    assert all(re.search("truncated|format version", words) for words in refusals)
    start = whole.index(weights.numpy().tobytes())
    damaged.write_bytes(whole[:start] + b"\x01" + whole[start + 1 :])
    assert not torch.equal(torch.load(damaged)["weights"], weights)  # hence the checksums
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(damaged)


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
