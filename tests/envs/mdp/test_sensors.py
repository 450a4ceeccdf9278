"""Readings of MuJoCo's sensors, by what they are mounted on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.errors import ConfigurationError
from tests.envs.hopper import GRAVITY, LEFT, MODEL, ROLLED, make_env, place
from tests.envs.sliders import select

SENSORS = """
<framequat name="quat" objtype="site" objname="imu"/>
<framelinacc objtype="body" objname="block"/><framelinacc objtype="body" objname="arm"/>
<framelinacc objtype="xbody" objname="arm"/>
<framezaxis name="up" objtype="body" objname="world" reftype="site" refname="imu"/></sensor>"""


def model_with_sensors(folder: Path) -> Path:
    """Write the hopper with a site that is turned to the left."""
    text = Path(MODEL).read_text().replace("</sensor>", SENSORS)
    root, quat = '<freejoint name="root"/>', " ".join(map(str, LEFT))
    path = folder / "hopper.xml"
    path.write_text(text.replace(root, f'{root}<site name="imu" quat="{quat}"/>'))
    return path


@pytest.fixture
def env(tmp_path: Path) -> ManagerEnv:
    return make_env(scene=SceneCfg(num_envs=1, model=str(model_with_sensors(tmp_path))))


def test_a_sensor_of_the_model_is_read_by_its_name(env: ManagerEnv):
    for quat, gravity in ((None, [0.0, 0.0, -1.0]), (ROLLED, [-1.0, 0.0, 0.0])):
        place(env, height=5.0, **({} if quat is None else {"quat": quat}))
        up = mdp.projected_gravity_from_sensor(env, "up")
        assert up[0].tolist() == pytest.approx(gravity, abs=1e-5)
    place(env, height=5.0)
    assert mdp.builtin_sensor(env, "quat")[0].tolist() == pytest.approx(LEFT, abs=1e-5)
    with pytest.raises(ConfigurationError, match=r"no sensor 'upp'.* Did you mean"):
        mdp.builtin_sensor(env, "upp")


def test_accelerations_at_rest_and_in_a_fall(env: ManagerEnv):
    block, both = select(env, body_names="block"), select(env, body_names=["block", "arm"])
    place(env, height=5.0)
    assert mdp.body_lin_acc_l2(env, both).tolist() == pytest.approx([2.0 * GRAVITY], rel=1e-4)
    place(env, height=0.1)
    for _ in range(400):  # it comes to rest on the floor
        env.step(torch.zeros(1, 1))
    assert mdp.body_lin_acc_l2(env, block).tolist() == pytest.approx([0.0], abs=0.05)


def test_a_body_without_a_sensor_is_named(tmp_path: Path):
    env = make_env(scene=SceneCfg(num_envs=1, model=MODEL))
    with pytest.raises(ConfigurationError, match='"body" objname="block"'):
        mdp.body_lin_acc_l2(env, select(env, body_names="block"))
