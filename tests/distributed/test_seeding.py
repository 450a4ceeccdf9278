"""The process's generators: seeded, saved and restored together."""

from __future__ import annotations

import random

import numpy as np
import torch

from envlab.distributed.seeding import (
    generator_identities,
    generator_state,
    seed_everything,
    set_generator_state,
)


def draw() -> tuple[float, float, float, float]:
    return random.random(), np.random.rand(), np.random.randn(), torch.rand(()).item()


def test_a_seed_decides_all_draws_and_a_restored_state_draws_the_same(tmp_path):
    seed_everything(3)
    first = draw()
    seed_everything(3)
    assert draw() == first
    seed_everything(4)
    assert draw() != first
    seed_everything(3)
    draw()
    torch.save(generator_state(), tmp_path / "state.pt")
    first = [draw() for _ in range(3)]
    set_generator_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert [draw() for _ in range(3)] == first


def test_a_gpu_that_is_not_used_is_left_alone(monkeypatch):
    """As with ``--device cpu`` on a machine with GPUs: accessing its generator would occupy it."""

    def refuse(*_: object) -> None:
        raise AssertionError("CUDA was initialised")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    for name in ("get_rng_state", "set_rng_state", "initial_seed"):
        monkeypatch.setattr(torch.cuda, name, refuse)
    state = generator_state()
    assert state["cuda"] is None
    assert "cuda" not in generator_identities()
    set_generator_state(state | {"cuda": torch.zeros(16, dtype=torch.uint8)})
