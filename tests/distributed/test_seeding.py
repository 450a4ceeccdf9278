"""The process's generators: seeded, saved and restored together."""

from __future__ import annotations

import random

import numpy as np
import torch

from envlab.distributed.seeding import generator_state, seed_everything, set_generator_state


def draw() -> tuple[float, float, float, float]:
    return random.random(), np.random.rand(), np.random.randn(), torch.rand(()).item()


def test_a_seed_decides_all_draws():
    seed_everything(3)
    first = draw()
    seed_everything(3)
    assert draw() == first
    seed_everything(4)
    assert draw() != first


def test_a_restored_state_draws_the_same(tmp_path):
    seed_everything(3)
    draw()
    torch.save(generator_state(), tmp_path / "state.pt")
    first = [draw() for _ in range(3)]
    set_generator_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert [draw() for _ in range(3)] == first
