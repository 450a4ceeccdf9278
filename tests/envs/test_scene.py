"""Loading models, and finding joints, bodies, sensors and actuators of them by name."""

from __future__ import annotations

import re

import mujoco
import pytest
import torch

from envlab.envs import SceneEntityCfg
from envlab.envs.entities import joint_actuators, resolve_entity
from envlab.envs.scene import load_model
from envlab.errors import ConfigurationError, SimulationError
from tests.envs.sliders import MODEL

CPU = torch.device("cpu")
MIXED = """
<mujoco>
  <worldbody>
    <body name="base"><freejoint name="root"/><geom size="0.1"/>
      <body name="ball"><joint name="ball" type="ball"/><geom size="0.1"/>
        <body name="tip"><joint name="hinge" type="hinge"/><geom size="0.1"/></body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="hinge"/><motor joint="hinge"/></actuator>
  <sensor><jointpos joint="hinge" name="angle"/><framepos objtype="body" objname="tip"
  name="tip"/></sensor>
</mujoco>
"""


@pytest.fixture
def sliders() -> mujoco.MjModel:
    return load_model(MODEL)


@pytest.fixture
def mixed() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(MIXED)


def test_a_model_is_loaded_from_a_package():
    assert load_model("envlab_assets:robots/cartpole.xml").joint(0).name == "slider_to_cart"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.xml", "'nowhere.xml', but nowhere.xml is not a file"),
        ("no_such_package:robot.xml", "there is no package 'no_such_package'"),
        ("envlab_assets:robots/no_such.xml", "no_such.xml is not a file"),
        ("", "env.scene.model is ''"),
    ],
)
def test_a_missing_model_is_an_error_that_names_it(source, message):
    with pytest.raises(SimulationError, match=re.escape(message)):
        load_model(source)


def test_a_broken_model_is_an_error_with_mujocos_reason(tmp_path):
    path = tmp_path / "broken.xml"
    path.write_text("<mujoco><worldbody><bogus/></worldbody></mujoco>")
    with pytest.raises(SimulationError, match=r"(?s)cannot compile .*broken\.xml.*bogus"):
        load_model(str(path))


def test_all_joints_are_selected_without_names(sliders):
    entity = resolve_entity(SceneEntityCfg(), sliders, CPU)
    assert entity.joint_names == ["push", "servo", "drive", "loose"]
    assert entity.qpos_ids == slice(None)
    assert entity.body_ids == slice(1, 5)  # the world is none of the robot's bodies


def test_names_are_patterns_in_the_models_order(sliders):
    entity = resolve_entity(SceneEntityCfg(joint_names=["loose", "(se|d).*"]), sliders, CPU)
    assert entity.joint_names == ["servo", "drive", "loose"]
    assert entity.qpos_ids == slice(1, 4)


def test_joints_that_are_apart_are_selected_by_indices(sliders):
    entity = resolve_entity(SceneEntityCfg(joint_names=["push", "loose"]), sliders, CPU)
    assert entity.qpos_ids.tolist() == [0, 3]


def test_names_match_in_full(sliders):
    with pytest.raises(ConfigurationError, match=r"No joint of the model matches 'pus'.*push"):
        resolve_entity(SceneEntityCfg(joint_names="pus"), sliders, CPU)


def test_free_and_ball_joints_span_their_columns(mixed):
    root = resolve_entity(SceneEntityCfg(joint_names="root"), mixed, CPU)
    ball = resolve_entity(SceneEntityCfg(joint_names="ball"), mixed, CPU)
    hinge = resolve_entity(SceneEntityCfg(joint_names="hinge"), mixed, CPU)
    assert (root.qpos_ids, root.qvel_ids) == (slice(0, 7), slice(0, 6))
    assert (ball.qpos_ids, ball.qvel_ids) == (slice(7, 11), slice(6, 9))
    assert (hinge.qpos_ids, hinge.qvel_ids) == (slice(11, 12), slice(9, 10))


def test_sensors_span_their_dimensions(mixed):
    assert resolve_entity(SceneEntityCfg(sensor_names="tip"), mixed, CPU).sensor_ids == slice(1, 4)
    assert resolve_entity(SceneEntityCfg(body_names="tip"), mixed, CPU).body_ids == slice(3, 4)


def test_actuators_follow_the_order_of_joints(sliders):
    assert joint_actuators(sliders, ["drive", "servo", "push"]) == [1, 2, 0]


@pytest.mark.parametrize(("joint", "count"), [("ball", 0), ("hinge", 2)])
def test_a_joint_needs_exactly_one_actuator(mixed, joint, count):
    with pytest.raises(ConfigurationError, match=f"'{joint}', which has {count} actuators"):
        joint_actuators(mixed, joint)
