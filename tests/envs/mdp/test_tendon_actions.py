"""Actions on tendons' and sites' actuators, and a base that drives and turns."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.errors import ConfigurationError
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import make_cfg, rank, terms

MODEL = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body name="base">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="yaw" axis="0 0 1"/>
      <geom size="0.1" mass="1"/>
      <site name="left" pos="0 0.1 0"/>
      <site name="right" pos="0 -0.1 0"/>
      <site name="bare"/>
    </body>
  </worldbody>
  <tendon>
    <fixed name="long"><joint joint="x" coef="1"/></fixed>
    <fixed name="wide"><joint joint="y" coef="2"/></fixed>
    <fixed name="slack"><joint joint="y" coef="1"/></fixed>
  </tendon>
  <actuator>
    <velocity joint="x" kv="5"/>
    <velocity joint="y" kv="5"/>
    <velocity joint="yaw" kv="5"/>
    <motor tendon="wide"/>
    <motor tendon="long"/>
    <motor site="right" gear="0 0 1 0 0 0"/>
    <motor site="left" gear="0 0 1 0 0 0"/>
  </actuator>
</mujoco>
"""
X, Y, YAW, WIDE, LONG, RIGHT, LEFT = range(7)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "base.xml"
    path.write_text(MODEL)
    return str(path)


def make(model: str, action, num_envs: int = 1) -> ManagerEnv:
    cfg = make_cfg(num_envs, actions=terms(one=action), sim={"data_fields": ("xpos", "xquat")})
    cfg.scene = SceneCfg(num_envs=num_envs, model=model)
    return ManagerEnv(cfg, context=rank(0, 1), seed=0)


@pytest.mark.parametrize(
    "cls", [mdp.TendonLengthActionCfg, mdp.TendonVelocityActionCfg, mdp.TendonEffortActionCfg]
)
def test_tendons_get_scaled_actions(model, cls):
    cfg = cls(
        tendon_names=["wide", "long"],
        scale={"wide": 2.0, "long": 1.0},
        offset={"long": 0.5},
        clip={"wide": (-1.0, 1.0)},
    )
    env = make(model, cfg)
    env.step(torch.tensor([[3.0, 4.0]]))  # long, wide: the model's order
    assert env.sim.ctrl[0].tolist() == [0.0, 0.0, 0.0, 1.0, 3.5, 0.0, 0.0]
    assert env.action_manager.describe() == {"one": None}  # deploy.yaml knows joints alone
    cfg.preserve_order = True
    env = make(model, cfg)
    env.step(torch.tensor([[0.25, 4.0]]))
    assert env.sim.ctrl[0, [WIDE, LONG]].tolist() == [0.5, 4.5]


def test_sites_get_scaled_actions(model):
    env = make(model, mdp.SiteEffortActionCfg(site_names=["left", "right"], scale=2.0))
    env.step(torch.tensor([[1.0, -0.5]]))
    assert env.sim.ctrl[0].tolist() == [0.0] * 5 + [-1.0, 2.0]


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (mdp.TendonEffortActionCfg(tendon_names="slack"), "the tendon 'slack', which has 0 act"),
        (mdp.TendonEffortActionCfg(tendon_names="wid"), "No tendon of the model matches 'wid'"),
        (mdp.SiteEffortActionCfg(site_names="bare"), "the site 'bare'.*with one are left, right"),
        (
            mdp.TendonEffortActionCfg(tendon_names="wide", scale={"long": 1.0}),
            "The tendon 'wide' matches 0 of the patterns long",
        ),
    ],
)
def test_names_without_an_actuator_are_refused(model, action, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        make(model, action)


def drive(**fields) -> mdp.NonHolonomicActionCfg:
    names = {"body_name": "base", "x_joint_name": "x", "y_joint_name": "y", "yaw_joint_name": "yaw"}
    return mdp.NonHolonomicActionCfg(**(names | fields))


def test_a_base_drives_where_it_faces(model):
    env = make(model, drive(scale=(2.0, 0.5), offset=(0.0, 0.1)))
    env.sim.reset(torch.ones(1, dtype=torch.bool), torch.tensor([[0.0, 0.0, 0.5]]))
    env.step(torch.tensor([[1.5, -1.0]]))
    expected = [3.0 * math.cos(0.5), 3.0 * math.sin(0.5), -0.4]
    assert env.sim.ctrl[0, [X, Y, YAW]].tolist() == pytest.approx(expected)
    env = make(model, drive(clip=(-1.0, 1.0)))
    env.step(torch.tensor([[3.0, -3.0]]))
    assert env.sim.ctrl[0, [X, Y, YAW]].tolist() == pytest.approx([1.0, 0.0, -1.0])
    assert env.action_manager.describe() == {"one": None}


def test_a_base_that_turns_drives_where_it_faces_in_each_physics_step(model):
    env = make(model, drive(each_substep=True))
    seen = []
    env.sim.substep = lambda number, substep=env.sim.substep: (  # type: ignore[method-assign]
        seen.append((env.sim.data.qpos[0, 2].item(), *env.sim.ctrl[0, [X, Y]].tolist())),
        substep(number),
    )
    for _ in range(3):
        env.step(torch.tensor([[1.0, 2.0]]))
    yaws = [yaw for yaw, *_ in seen]
    assert len(seen) == 3 * env.cfg.decimation
    assert len({*yaws}) == len(yaws)
    for yaw, x, y in seen:
        assert (x, y) == pytest.approx((math.cos(yaw), math.sin(yaw)), abs=1e-5)


def test_a_base_that_is_not_one_is_refused(model):
    with pytest.raises(ConfigurationError, match=r"x_joint_name '\[xy\]' .* matches x, y, but"):
        make(model, drive(x_joint_name="[xy]"))
    with pytest.raises(ConfigurationError, match=r"clip is .*, by joint, but its numbers are not"):
        make(model, drive(clip={"x": (0.0, 1.0)}))


@pytest.mark.parametrize(
    "action",
    [
        drive(),
        mdp.TendonEffortActionCfg(tendon_names=["long", "wide"], clip={"wide": (-0.1, 0.1)}),
        mdp.SiteEffortActionCfg(site_names=["left", "right"], offset={"left": 0.2}),
    ],
)
def test_controls_keep_the_promises_of_every_task(model, action):
    cfg = make(model, action, 8).cfg
    cfg.sim.dt = 1e-3
    assert_keeps_promises(cfg)
