"""What is found by attributes is saved by place, and written into an object that was made alike."""

from __future__ import annotations

import collections
import copy
import logging
from typing import Any

import numpy as np
import pytest
import torch

from envlab_isaaclab.memory import Memory


class Term:
    """A term with the kinds of state that terms have."""

    def __init__(self) -> None:
        self.values = torch.zeros(3)
        self.seen = None
        self.ranges = (0.0, 1.0)
        self.recent = collections.deque([1.0, 2.0], maxlen=2)
        self.array = np.zeros(2)
        self.generator = np.random.default_rng(0)
        self.name = "term"


class Env:
    """An environment with terms, of which another part holds one's tensor."""

    device = "cpu"

    def __init__(self) -> None:
        self.terms = {"one": Term(), "two": Term()}
        self.count = 0
        self.alike = self.terms["one"].values
        self.apart = torch.zeros(3)


def remembered(env: Env, begun: list[str] | None = None) -> Memory:
    begun = [] if begun is None else begun
    return Memory(env, lambda: None, lambda: begun.append("anew"))


def changed() -> Env:
    env, term = Env(), None
    for number, term in enumerate(env.terms.values()):
        term.values += number + 1
        term.seen = torch.full((2,), float(number))
        term.ranges = (0.0, 2.0 + number)
        term.recent.append(5.0)
        term.array += 4.0
        term.generator.random(7)
    env.count = 9
    env.apart = env.terms["two"].values
    return env


def test_all_is_restored_and_parts_are_shared_as_they_were() -> None:
    then, now = changed(), Env()
    saved = copy.deepcopy(remembered(then).state())
    kept = now.terms["one"].values
    remembered(now).set_state(saved)
    for name, term in now.terms.items():
        old: Any = then.terms[name]
        assert torch.equal(term.values, old.values)
        assert torch.equal(term.seen, old.seen)
        assert term.ranges == old.ranges
        assert list(term.recent) == [2.0, 5.0]
        assert term.array.tolist() == [4.0, 4.0]
        assert term.generator.random() == old.generator.random()
    assert now.count == 9
    assert now.alike is kept  # memory that others hold is written in place
    assert now.apart is now.terms["two"].values


def test_tensors_that_were_one_and_then_differed_are_two() -> None:
    then, now = changed(), Env()
    then.alike = torch.full((3,), 7.0)
    remembered(now).set_state(remembered(then).state())
    assert now.alike.tolist() == [7.0] * 3
    assert now.terms["one"].values.tolist() == [1.0] * 3


def test_what_does_not_exist_here_begins_new_episodes_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    then, begun = changed(), list[str]()
    then.terms["three"] = Term()
    with caplog.at_level(logging.WARNING):
        remembered(Env(), begun).set_state(remembered(then).state())
    assert begun == ["anew"]
    assert "begin new episodes" in caplog.text
    assert '"three"' in caplog.text
