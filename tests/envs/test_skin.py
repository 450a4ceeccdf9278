"""Skins change pictures alone, are drawn where the skin's file has them, and must fit."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch

from envlab.config import compose
from envlab.envs.skin import wear
from envlab.errors import ConfigurationError, SimulationError
from envlab.registry import get_task, load_env_cfg
from envlab.training.arguments import agent_parser

ROBOT = """
<mujoco model="two_links">
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0"/>
      <geom name="upper" type="capsule" size="0.05 0.2" mass="1"/>
      <geom name="hull" type="box" size="0.1 0.1 0.1" group="3" mass="1"/>
      <body name="lower" pos="0 0 -0.5" euler="0 0 40">
        <joint name="elbow" axis="0 1 0"/>
        <geom name="lower" type="capsule" size="0.05 0.2" mass="1"/>
      </body>
    </body>
  </worldbody>
</mujoco>"""
TETRAHEDRON = "0 0 0  0.3 0 0  0 0.2 0  0 0 0.1"
SKIN = f"""
<mujoco model="other">
  <default><default class="visual">
    <geom type="mesh" contype="0" conaffinity="0" group="1" mesh="wedge" material="red"/>
  </default></default>
  <asset><mesh name="wedge" vertex="{TETRAHEDRON}"/><material name="red" rgba="1 0 0 1"/></asset>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint axis="0 1 0"/>
      <geom class="visual"/>
      <geom name="hull" type="box" size="0.2 0.2 0.2"/>
      <body name="lower" pos="0 0 -0.5" euler="0 0 40">
        <joint axis="0 1 0"/>
        <geom name="stub" type="sphere" size="0.1" contype="0" conaffinity="0"/>
        <body name="hand" pos="0.1 0 -0.2" euler="0 0 90">
          <geom class="visual" pos="0.05 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>"""


@pytest.fixture
def skin(tmp_path: Path) -> Path:
    path = tmp_path / "skin.xml"
    path.write_text(SKIN)
    return path


def robot() -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(ROBOT)


def test_a_skin_is_drawn_where_its_file_has_it_and_weighs_nothing(skin: Path):
    spec = robot()
    plain = spec.compile()
    look = wear(spec, str(skin))
    model = look.model
    assert [model.geom(int(i)).name for i in look.geoms] == ["floor", "upper", "hull", "lower"]
    assert [model.geom(int(i)).group[0] for i in look.geoms] == [0, 5, 3, 5]
    np.testing.assert_array_equal(model.body_mass, plain.body_mass)
    assert (model.nq, model.nbody, spec.compile().ngeom) == (plain.nq, plain.nbody, 4)
    added = np.delete(np.arange(model.ngeom), look.geoms)
    assert not model.geom_contype[added].any()
    assert not model.geom_conaffinity[added].any()
    theirs = mujoco.MjModel.from_xml_path(str(skin))
    ours, data = mujoco.MjData(model), mujoco.MjData(theirs)
    ours.qpos[:] = data.qpos[:] = 0.3, -0.7
    mujoco.mj_kinematics(model, ours)
    mujoco.mj_kinematics(theirs, data)
    seen = np.flatnonzero(theirs.geom_contype == 0)
    np.testing.assert_allclose(ours.geom_xpos[added], data.geom_xpos[seen], atol=1e-6)
    np.testing.assert_allclose(ours.geom_xmat[added], data.geom_xmat[seen], atol=1e-6)
    red = model.geom_matid[added] >= 0
    np.testing.assert_array_equal(model.mat_rgba[model.geom_matid[added[red]]], [[1, 0, 0, 1]] * 2)


def test_randomised_fields_of_the_physics_reach_the_dressed_model(skin: Path):
    look = wear(robot(), str(skin))
    drawn = torch.rand(1, len(look.geoms), 4)
    masses = torch.rand(1, look.model.nbody)
    model = copy.copy(look.model)
    look.write_params(model, SimpleNamespace(params={"geom_rgba": drawn, "body_mass": masses}), 0)
    np.testing.assert_allclose(model.geom_rgba[look.geoms], drawn[0])
    others = np.delete(np.arange(model.ngeom), look.geoms)
    np.testing.assert_array_equal(model.geom_rgba[others], look.model.geom_rgba[others])
    np.testing.assert_allclose(model.body_mass, masses[0])


FLAWS = {
    "another robot": (
        SKIN.replace('"lower"', '"forearm"').replace('"upper"', '"uper"'),
        "uper, forearm",
    ),
    "nothing to see": (SKIN.replace('contype="0" ', ""), "has no visual geoms"),
    "no mesh": (SKIN.replace(f'vertex="{TETRAHEDRON}"', 'file="wedge.stl"'), r"wedge\.stl"),
}


def test_a_skin_that_does_not_fit_is_one_sentence(skin: Path):
    for name, (text, words) in FLAWS.items():
        skin.write_text(text)
        with pytest.raises((ConfigurationError, SimulationError), match=words):
            wear(robot(), str(skin))
        assert skin.is_file(), name
    skin.write_text(FLAWS["another robot"][0])
    with pytest.raises(ConfigurationError, match=r"does not have\. Did you mean upper"):
        wear(robot(), str(skin))
    with pytest.raises(ConfigurationError, match=r"the model 'two_links', only for .*go2, "):
        wear(robot(), "menagerie")


def test_bodies_that_are_elsewhere_in_the_skin_are_told(skin: Path, caplog):
    skin.write_text(SKIN.replace('pos="0 0 -0.5"', 'pos="0 0 -0.4"'))
    wear(robot(), str(skin))
    assert "The skin's bodies lower are elsewhere on their parents" in caplog.text


GO2_SKIN = """
<mujoco><worldbody><body name="base">
  <geom type="box" size="0.4 0.3 0.2" rgba="1 0 0 1" contype="0" conaffinity="0"/>
</body></worldbody></mujoco>"""


def played(skin: str | None, tmp_path: Path) -> tuple[torch.Tensor, np.ndarray]:
    words = ["--task=Isaac-Velocity-Flat-Unitree-Go2-v0", "--num_envs=2", "--device=cpu"]
    words += [] if skin is None else [f"--skin={skin}"]
    flags, overrides = agent_parser("random").parse_with_overrides(words)
    task = get_task(flags.task)
    cfg = compose({"env": load_env_cfg(task)}, [*overrides])["env"]
    cfg.scene.num_envs = 2
    env = task.make(cfg, seed=1, render_mode="rgb_array")
    for _ in range(5):
        env.step(torch.full_like(env.actions, 0.3))
    picture = env.picture(1, height=120, width=160)
    state = env.sim.data.qpos.clone()
    env.close()
    return state, picture


def test_the_flag_changes_pictures_and_no_physics(tmp_path: Path):
    path = tmp_path / "it's, a skin.xml"
    path.write_text(GO2_SKIN)
    plain, dressed = played(None, tmp_path), played(str(path), tmp_path)
    assert torch.equal(plain[0], dressed[0])
    reds = [int(((p[..., 0] > 120) & (p[..., 1] < 60)).sum()) for _, p in (plain, dressed)]
    assert reds[0] == 0
    assert reds[1] > 300
