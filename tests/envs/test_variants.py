"""Another object in each environment: chosen by global index, on both backends."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import (
    EntityCfg,
    InitialStateCfg,
    ManagerEnv,
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    ShapeCfg,
    SimulationCfg,
    mdp,
)
from envlab.envs.entity_cfg import VariantCfg
from envlab.envs.scene import build_model
from envlab.envs.terms import at_startup, observation, termination
from envlab.errors import ConfigurationError
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, rank, terms

TALL = VariantCfg(shape=ShapeCfg(size=(0.05, 0.05, 0.2), mass=2.0))
FLAT = VariantCfg(shape=ShapeCfg(size=(0.1, 0.1, 0.03), mass=1.0))
BALL = VariantCfg(shape=ShapeCfg(type="sphere", size=(0.15,), mass=0.5))


def wedge(folder: Any, height: float) -> VariantCfg:
    """Return a mesh: a box whose lower face is at its origin."""
    corners = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (0, height)]
    faces = [f"f {face}" for face in ("1 2 4", "1 4 3", "5 7 8", "5 8 6", "1 5 6", "1 6 2")]
    faces += [f"f {face}" for face in ("3 4 8", "3 8 7", "1 3 7", "1 7 5", "2 6 8", "2 8 4")]
    path = folder / f"wedge_{height}.obj"
    path.write_text("\n".join([f"v {x} {y} {z}" for x, y, z in corners] + faces))
    return VariantCfg(shape=ShapeCfg(type="mesh", file=str(path), mass=1.0))


def drive(spec: mujoco.MjSpec) -> None:
    """Let a pole far away turn by a motor, as a task has at least one action."""
    (body,) = spec.worldbody.bodies
    body.pos, body.geoms[0].mass = [5, 0, 1], 1.0
    body.add_joint(name="hinge")
    spec.add_actuator(name="hinge", target="hinge", trntype=mujoco.mjtTrn.mjTRN_JOINT)


def made(
    variants: dict[str, VariantCfg],
    num_envs: int = 6,
    context: DistributedContext | None = None,
    backend: str = "mujoco",
    **events: Any,
) -> ManagerEnv:
    thing = EntityCfg(variants=variants, init_state=InitialStateCfg(pos=(0, 0, 0.25)))
    pole = EntityCfg(shape=ShapeCfg(size=(0.01, 0.01, 0.5)), spec_fn=drive)
    cfg = ManagerEnvCfg(
        decimation=4,
        episode_length_s=100.0,
        sim=SimulationCfg(dt=0.005, backend=backend, data_fields=("xpos",)),
        scene=SceneCfg(num_envs=num_envs, entities={"pole": pole, "thing": thing}),
        observations=terms(
            policy=group(pos=observation(mdp.root_pos_w, asset_cfg=SceneEntityCfg("thing")))
        ),
        actions=terms(turn=mdp.JointEffortActionCfg(joint_names="hinge", asset_name="pole")),
        events=terms(**events),
        terminations=terms(time_out=termination(mdp.time_out, time_out=True)),
    )
    return ManagerEnv(cfg, context=context or rank(0, 1), seed=0)


def heights(env: ManagerEnv, steps: int = 60) -> torch.Tensor:
    for _ in range(steps):
        env.step(torch.zeros(env.num_envs, 1))
    return env.scene["thing"].data.root_pos_w[:, 2]


def test_each_environment_has_its_own_shape_and_mass():
    env = made({"tall": TALL, "flat": FLAT, "ball": BALL})
    assert heights(env).tolist() == pytest.approx([0.2, 0.03, 0.15] * 2, abs=2e-3)
    body = env.sim.model.body("thing/thing").id
    assert env.sim.params.body_mass[:, body].tolist() == [2.0, 1.0, 0.5] * 2
    model = env.sim.model_of(2)
    alone = build_model(SceneCfg(entities={"thing": EntityCfg(shape=BALL.shape)}))
    assert np.allclose(model.body(body).inertia, alone.body(1).inertia)
    assert np.allclose(model.body(body).invweight0, alone.body(1).invweight0)


def test_weights_are_shares_of_environments_in_turn():
    env = made({"tall": TALL, "flat": VariantCfg(shape=FLAT.shape, weight=3.0)}, 8)
    masses = env.sim.params.body_mass[:, env.sim.model.body("thing/thing").id]
    assert (masses == 2.0).sum() == 2
    assert (masses[:4] == 2.0).sum() == 1


def test_halves_of_the_environments_have_the_objects_of_the_whole():
    three = {"tall": TALL, "flat": FLAT, "ball": BALL}
    whole = made(three)
    halves = [made(three, 3, context=rank(index, 2)) for index in range(2)]
    expected, found = heights(whole, 10), [heights(half, 10) for half in halves]
    assert torch.equal(torch.cat(found), expected)
    again = made(three)
    again.set_state(whole.state())
    assert torch.equal(heights(again, 10), heights(whole, 10))


@pytest.mark.parametrize("backend", ["mujoco", pytest.param("mujoco_warp", marks=pytest.mark.long)])
def test_boxes_and_meshes_differ_on_both_backends(tmp_path, backend):
    boxes = made({"tall": TALL, "flat": FLAT}, 2, backend=backend)
    assert heights(boxes).tolist() == pytest.approx([0.2, 0.03], abs=3e-3)
    meshes = made({"low": wedge(tmp_path, 0.1), "high": wedge(tmp_path, 0.4)}, 2, backend=backend)
    tops = meshes.sim.data_of(0), meshes.sim.data_of(1)
    heights(meshes)
    assert meshes.scene["thing"].data.root_pos_w[:, 2].tolist() == pytest.approx([0, 0], abs=5e-3)
    assert [float(data.xipos[2, 2] - data.xpos[2, 2]) for data in tops] == pytest.approx(
        [0.05, 0.2]
    )


def test_files_with_more_geoms_and_joints_below_are_padded(tmp_path):
    box = '<geom size="0.1" rgba="1 0 0 1"/>'
    text = (
        '<mujoco><worldbody><body><freejoint/>{}<body><joint axis="0 0 1"/>{}</body></body>'
        "</worldbody></mujoco>"
    )
    files = {"one": text.format(box, box), "two": text.format(box + box, box)}
    for name, content in files.items():
        (tmp_path / f"{name}.xml").write_text(content)
    env = made({name: VariantCfg(model=str(tmp_path / f"{name}.xml")) for name in files}, 2)
    model = env.sim.model
    assert model.body_geomnum.tolist()[-2:] == [2, 1]
    assert env.sim.model_of(0).geom_contype[-2] == 0
    assert env.sim.model_of(1).geom_contype[-2] == 1


def test_randomisation_starts_from_each_ones_own_mass():
    double = at_startup(
        mdp.randomize_rigid_body_mass,
        mass_distribution_params=(2.0, 2.0),
        operation="scale",
        asset_cfg=SceneEntityCfg("thing"),
    )
    env = made({"tall": TALL, "flat": FLAT}, 4, double=double)
    body = env.sim.model.body("thing/thing").id
    assert env.sim.params.body_mass[:, body].tolist() == [4.0, 2.0] * 2


def test_variants_that_do_not_fit_are_named(tmp_path):
    fixed = VariantCfg(shape=ShapeCfg(size=(0.1, 0.1, 0.1)))
    both = EntityCfg(shape=TALL.shape, variants={"flat": FLAT})
    assert_refused(
        {
            r"thing.variants.fixed has bodies and joints \[\[\]\], but": lambda: made(
                {"tall": TALL, "fixed": fixed}
            ),
            "a has variants, and also a shape": lambda: build_model(SceneCfg(entities={"a": both})),
            "changes 'geom_type', which mujoco_warp does not hold": lambda: made(
                {"tall": TALL, "ball": BALL}, backend="mujoco_warp"
            ),
        },
        ConfigurationError,
    )
