"""What a message by hand may set: nothing that the page's own controls cannot."""

from __future__ import annotations

import math
from collections.abc import Iterator

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
    stage = Stage(
        title="test",
        model=mujoco.MjModel.from_xml_string("<mujoco/>"),
        num_envs=40,
        num_shown=8,
        port=0,
        is_played=True,
        is_apart=False,
        commands={"velocity": {"forward": (-1.0, 2.0), "turn": (-0.5, 0.5)}},
    )
    server = serve_viser(take_address(0), "test", Gamepad())
    yield Panel(server, stage)
    server.stop()


def test_wishes_keep_the_controls_bounds_whatever_a_message_sets(panel: Panel):
    is_held, sliders = panel._commands["velocity"]
    is_held._impl.value = True
    for value, ends in ((1e9, (2.0, 0.5)), (-math.inf, (-1.0, -0.5)), (math.nan, (-1.0, -0.5))):
        for control in (*sliders, panel._push):
            control._impl.value = value
        wishes = panel.wishes()
        assert wishes.commands == {"velocity": ends}
        assert wishes.push == (5.0 if value == 1e9 else 0.1)
    panel._speed._impl.value = "ever faster"
    assert panel.wishes().speed == 1.0
    for value, first, followed in ((-7, 0, 0), (10**9, 32, 7)):
        panel.environment._impl.value = value
        assert (panel.wishes().first, panel.wishes().followed) == (first, followed)
