"""Bodies that gravity does not pull stay where they are, and the others fall."""

from __future__ import annotations

import mujoco
import pytest

from envlab.envs.surroundings import disable_gravity
from envlab.errors import ConfigurationError

TWO = """
<mujoco>
  <worldbody>
    <body name="held"><freejoint/><geom size="0.1" mass="2"/></body>
    <body name="free" pos="1 0 0"><freejoint/><geom size="0.1" mass="2"/></body>
  </worldbody>
</mujoco>
"""


def test_only_the_named_bodies_stay():
    spec = mujoco.MjSpec.from_string(TWO)
    disable_gravity(spec, ["he.*"])
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 100)
    assert data.body("held").xpos[2] == pytest.approx(0.0, abs=1e-9)
    # 100 steps of 2 ms, semi-implicit Euler: -g dt^2 n (n + 1) / 2
    assert data.qpos[9] == pytest.approx(-9.81 * 0.002**2 * 100 * 101 / 2, rel=1e-6)


def test_a_name_that_matches_nothing_lists_the_bodies():
    spec = mujoco.MjSpec.from_string(TWO)
    with pytest.raises(ConfigurationError, match=r"matches 'hold'; it has held, free.* mean held"):
        disable_gravity(spec, ["hold"])
