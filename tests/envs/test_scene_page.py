"""The scene of docs/add_a_task.md is forty lines, steps, resumes, is drawn and exported."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import ManagerEnv, ManagerEnvCfg, SceneEntityCfg, SimulationCfg, mdp
from envlab.envs.entity_files import write_scene
from envlab.envs.scene import build_spec
from envlab.envs.terms import at_reset, observation, termination
from envlab.task import Task
from envlab.tools.probe import brief, check
from tests.envs.sliders import group, rank, terms
from tests.launcher import ROOT

PAGE = ROOT / "docs" / "add_a_task.md"


@pytest.fixture(scope="module")
def module() -> Any:
    """Return the page's example as a module."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (text,) = [block for block in blocks if "class TableSceneCfg" in block]
    body = text[text.index("@dataclass") :]
    assert len(body.strip().splitlines()) <= 40
    made = sys.modules["page_scene"] = types.ModuleType("page_scene")
    exec(text, made.__dict__)
    return made


@dataclass(frozen=True, kw_only=True)
class Page(Task):
    def make(self, cfg: Any, **kwargs: Any) -> Any:
        return ManagerEnv(cfg, **kwargs)


def cfg_of(module: Any, num_envs: int = 6) -> ManagerEnvCfg:
    spread = at_reset(
        mdp.reset_root_state_uniform,
        pose_range={"x": (-0.05, 0.05), "y": (-0.05, 0.05)},
        velocity_range={},
        asset_cfg=SceneEntityCfg("block"),
    )
    return ManagerEnvCfg(
        decimation=2,
        episode_length_s=1.0,
        sim=SimulationCfg(dt=0.01, data_fields=("xpos", "xquat")),
        scene=module.TableSceneCfg(num_envs=num_envs),
        observations=terms(
            policy=group(
                joints=observation(mdp.joint_pos_rel),
                block=observation(mdp.root_pos_w, asset_cfg=SceneEntityCfg("block")),
            )
        ),
        actions=terms(arm=mdp.JointPositionActionCfg(joint_names="panda_joint.*")),
        events=terms(spread=spread),
        terminations=terms(time_out=termination(mdp.time_out, time_out=True)),
    )


def test_the_scene_of_the_page_stands_still_and_is_drawn(module):
    env = ManagerEnv(cfg_of(module), context=rank(0, 1), seed=0, render_mode="rgb_array")
    for _ in range(30):
        env.step(torch.zeros(6, 7))
    height = {name: env.scene[name].data.root_pos_w[:, 2] for name in ("brick", "ball", "block")}
    assert height["brick"].tolist() == pytest.approx([0.42] * 6, abs=2e-3)
    assert height["ball"].tolist() == pytest.approx([0.43] * 6, abs=2e-3)
    assert sorted(height["block"].tolist()) == pytest.approx([0.43] * 2 + [0.45] * 4, abs=2e-3)
    pictures = [env.picture(index) for index in (0, 1)]
    assert pictures[0].std() > 10
    assert (pictures[0] != pictures[1]).any()


def test_the_task_keeps_what_is_promised_of_every_task(module):
    task = Page(id="Page-v0", kind="manager", libraries=[], description="", kwargs={})
    results = dict(check(task, brief(cfg_of(module))))
    assert list(results.values()) == [None] * 6, results


def test_the_scene_is_written_with_its_files_and_read_again(module, tmp_path):
    corners = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["f 1 2 3", "f 2 4 3", "f 5 6 7"]
    mesh, folder = tmp_path / "rock.obj", tmp_path / "out"
    mesh.write_text("\n".join(lines))
    folder.mkdir()
    cfg = module.TableSceneCfg()
    cfg.ball.shape = module.ShapeCfg(type="mesh", file=str(mesh), mass=0.2)
    spec, model = build_spec(cfg)
    written = write_scene(spec, folder)
    assert [path.name for path in written] == ["scene.xml", "0_rock.obj"]
    mesh.unlink()
    again = mujoco.MjModel.from_xml_path(str(folder / "scene.xml"))
    for name in ("qpos0", "body_mass", "geom_type", "key_qpos"):
        assert np.allclose(getattr(again, name), getattr(model, name), atol=1e-6), name
    assert Path(folder / "assets").is_dir()
