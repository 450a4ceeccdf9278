"""A handmade message may set only what the page's own controls can."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mujoco
import pytest

pytest.importorskip("viser", reason="needs viser: pip install -e '.[viewer]'")
from envlab_web.address import take_address
from envlab_web.viewer.gamepad import Gamepad
from envlab_web.viewer.guard import serve_viser
from envlab_web.viewer.messages import Stage
from envlab_web.viewer.panel import Panel


@pytest.fixture(scope="module")
def panel() -> Iterator[Panel]:
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    commands = {"velocity": {"forward": (-1.0, 2.0), "turn": (-0.5, 0.5)}}
    counts = {"num_envs": 40, "num_shown": 8, "port": 0, "is_played": True, "is_apart": False}
    stage = Stage(title="test", model=model, commands=commands, **counts)
    server = serve_viser(take_address(0), "test", Gamepad())
    yield Panel(server, stage)
    server.stop()


def set_by_hand(control: Any, value: object) -> None:
    """Set a control like a message, whatever its bounds."""
    control._impl.value = value  # private: viser's own setter keeps the bounds


def test_wishes_keep_the_controls_bounds_whatever_a_message_sets(panel: Panel):
    is_held, sliders = panel.commands["velocity"]
    set_by_hand(is_held, True)
    for value, ends in ((1e9, (2.0, 0.5)), (-math.inf, (-1.0, -0.5)), (math.nan, (-1.0, -0.5))):
        for control in (*sliders, panel.push):
            set_by_hand(control, value)
        wishes = panel.wishes()
        assert wishes.commands == {"velocity": ends}
        assert wishes.push == (5.0 if value == 1e9 else 0.1)
    set_by_hand(panel.speed, "ever faster")
    assert panel.wishes().speed == 1.0
    for value, first, followed in ((-7, 0, 0), (10**9, 32, 7)):
        set_by_hand(panel.environment, value)
        assert (panel.wishes().first, panel.wishes().followed) == (first, followed)
