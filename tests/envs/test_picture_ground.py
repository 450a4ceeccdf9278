"""Pictures on large ground draw the part around the robot, where it is."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from envlab.envs import painter
from envlab.registry import make

TASK = "Envlab-Velocity-Parkour-Unitree-Go2-v0"


@pytest.fixture(scope="module")
def env():
    env = make(TASK, num_envs=3, device="cpu", seed=1)
    yield env
    env.close()


def test_a_part_looks_as_the_whole_near_the_robot(env, monkeypatch):
    field = env.sim.model.hfield_data.copy()
    monkeypatch.setattr(painter, "RADIUS_M", 1000.0)
    whole = env.picture(1, height=96, width=160)
    monkeypatch.setattr(painter, "RADIUS_M", 12.0)
    env.picture(0, height=8, width=8)  # of another part
    part = env.picture(1, height=96, width=160)
    near = np.abs(part[40:].astype(int) - whole[40:]).max(axis=2)
    assert (near > 40).mean() < 0.01
    assert len(np.unique(part[40:].reshape(-1, 3), axis=0)) > 50
    places = env.sim.data_of(0).geom_xpos.copy()
    data = env.sim.data_of(0)
    with painter.PictureGround(copy.copy(env.sim.model), data, places[1, :2]).placed(data):
        moved = data.geom_xpos.copy()
    assert not np.array_equal(moved, places)
    np.testing.assert_array_equal(data.geom_xpos, places)  # the physics may go on from there
    assert (env.sim.model.hfield_nrow[0], env.sim.model.hfield_ncol[0]) == (961, 801)
    np.testing.assert_array_equal(env.sim.model.hfield_data, field)
