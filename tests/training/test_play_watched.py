"""A viewer's policy follows the training that it watches."""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from envlab.errors import CheckpointError
from envlab.run.checkpoints import Checkpoints
from envlab.training.play_watched import LOOK_S, NewerPolicies


class StubViewer:
    told = ""


def test_each_newer_checkpoint_is_taken_over_once(tmp_path: Path, caplog, monkeypatch):
    checkpoints, now = Checkpoints(tmp_path), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def save(number: int) -> None:
        checkpoints.save(number, {"iteration": number, "frames": 10 * number}, is_best=False)

    def accept(values, path) -> None:
        if values["iteration"] == 3:
            raise CheckpointError("Of another task.")

    save(1)
    viewer = StubViewer()
    newer = NewerPolicies(tmp_path, "latest", accept, lambda values: values["iteration"], viewer)
    assert newer() is None  # not yet
    now[0] += LOOK_S
    assert newer() is None  # the one that plays
    save(2)
    now[0] += LOOK_S
    assert (newer(), viewer.label) == (2, "model_2.pt: iteration 2, 20 frames")
    now[0] += LOOK_S
    assert newer() is None
    (tmp_path / "model_2.pt").unlink()
    (tmp_path / "model_1.pt").unlink()
    save(3)
    now[0] += LOOK_S
    with caplog.at_level(logging.WARNING):
        assert newer() is None
    assert "the old one stays: Of another task." in caplog.text
    assert torch.load(tmp_path / "latest.pt", weights_only=True)["iteration"] == 3
