"""What keys and a gamepad say: read whole, kept within bounds, and forgotten when it is old."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envlab_web.viewer import handset
from envlab_web.viewer.handset import Handset


def message(**values: Any) -> str:
    return json.dumps({"held": [], "axes": [], "cross": [], "taps": []} | values)


def test_keys_sticks_and_cross_push_axes():
    set_ = Handset(7)
    set_.read(message(held=["W", "D", "Z", "U"]))
    assert set_.pushes() == (1.0, -1.0, 0.0, 1.0, 0.0, 0.0, 1.0)
    set_.read(message(held=["W"], axes=[0.5, 0.25, -0.75, 0.1], cross=[1, 0, 0, 1]))
    assert set_.pushes() == (0.75, -0.5, -0.1, 1.0, 1.0, 0.75, 0.0)
    set_.read(message(held=["W"], axes=[0, -1, 0, 0]))
    assert set_.pushes()[0] == 1.0
    assert '"U", "J"' in set_.script.decode()
    assert "KEYS" not in set_.script.decode()


def test_taps_are_taken_once():
    set_ = Handset(3)
    set_.read(message(taps=["K", "R", "PAD3", "nonsense"]))
    set_.read(message(taps=["B"]))
    assert set_.take_taps() == ["num_grips", "num_discarded", "num_kept", "num_begun"]
    assert set_.take_taps() == []


WRONG = [
    *("", "[]", "{", "1", "[" * 100_000, '{"held": 1}', message(held=3), message(axes=["x"])),
    *(message(axes=[0, float("nan")]), message(axes=None), message(cross={}), message(taps=[[]])),
]


def test_what_cannot_be_read_is_ignored():
    set_ = Handset(6)
    for text in WRONG:
        set_.read(text)
        assert set_.pushes() == (0.0,) * 6
        assert set_.take_taps() == []
    set_.read(message(axes=[1e9] * 4, taps=["K"] * 1000))
    assert set(set_.pushes()) == {-1.0, 0.0}
    assert len(set_.take_taps()) <= 10


def test_nothing_is_held_when_the_page_is_gone(monkeypatch: pytest.MonkeyPatch):
    set_ = Handset(3)
    set_.read(message(held=["W"]))
    monkeypatch.setattr(handset, "HELD_S", 0.0)
    assert set_.pushes() == (0.0, 0.0, 0.0)
