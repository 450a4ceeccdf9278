"""Views of a world: fixed tendons, where links are on the stage, cameras on a terrain."""

from __future__ import annotations

import math
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch

from envlab.errors import ConfigurationError
from envlab_isaaclab import stage, views
from envlab_isaaclab.cameras import CameraView
from envlab_isaaclab.robots import find_robot
from envlab_isaaclab.spawn_shapes import put
from envlab_isaaclab.terrains import height_rays
from envlab_isaaclab.things import Body, Terrain
from envlab_isaaclab.usd_geometry import Joint, Xformable
from envlab_isaaclab.world import World

HAND = "/World/envs/env_0/Hand"
CFG = SimpleNamespace(dt=0.005, gravity=(0.0, 0.0, 0.0), physics_material=None)


@pytest.fixture
def world():
    """The Shadow hand in two environments, 0.5 m above the ground."""
    shown = stage.renew()
    shown.define(HAND)
    put(HAND, None, find_robot("shadow_hand_instanceable.usd"), (0.0, 0.0, 0.5))
    shown.repeat(2, np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]]))
    made = World(shown, CFG, torch.device("cpu"))
    views.show(made)
    yield made
    made.close()
    views.show(None)
    stage.renew()


def test_a_tendons_spring_pulls_in_the_environment_where_it_was_set(world):
    view = views.simulation_view().create_articulation_view(HAND)
    assert view.max_fixed_tendons == 4
    names = view.shared_metatype.dof_names
    outer, inner = names.index("robot0_FFJ0"), names.index("robot0_FFJ1")
    where = f"{HAND}/joints"
    marked = [name for name in names if Joint.Get(world.stage, f"{where}/{name}").IsValid()]
    assert {name.removeprefix("robot0_") for name in marked} == {"FFJ0", "MFJ0", "RFJ0", "LFJ0"}
    tendon = marked.index("robot0_FFJ0")
    stiffness = view.get_fixed_tendon_stiffnesses()
    assert stiffness.tolist() == [[0.0] * 4] * 2
    assert view.get_fixed_tendon_limits()[0, 0].tolist() == pytest.approx([-0.001, 0.001])
    stiffness[:, tendon] = 2e4
    view.set_fixed_tendon_properties(
        stiffness,
        view.get_fixed_tendon_dampings(),
        view.get_fixed_tendon_limit_stiffnesses(),
        view.get_fixed_tendon_limits(),
        view.get_fixed_tendon_rest_lengths(),
        view.get_fixed_tendon_offsets(),
        torch.tensor([1]),
    )
    assert view.get_fixed_tendon_stiffnesses()[:, tendon].tolist() == [0.0, 2e4]
    start = torch.zeros(2, len(names))
    start[:, outer] = 0.1  # 0.0007 m of tendon, within its limits
    view.set_dof_positions(start, torch.arange(2))
    for _ in range(5):
        world.step()
    after = view.get_dof_positions()
    assert after[0, outer] == pytest.approx(0.1, abs=1e-3)
    assert after[1, outer] < 0.09
    assert after[1, inner] > 0.001  # the tendon draws the joint before it along


def test_links_are_where_the_state_says_after_each_step_and_each_write(world):
    view = views.simulation_view().create_articulation_view(HAND)
    envs = torch.arange(2)
    assert_links_follow(world, view)
    view.set_dof_velocities(torch.rand(2, len(view.shared_metatype.dof_names)), envs)
    for _ in range(3):
        for _ in range(2):
            world.step()
        assert_links_follow(world, view)
    view.set_dof_velocities(torch.rand(2, len(view.shared_metatype.dof_names)), envs)
    assert_links_follow(world, view)


def assert_links_follow(world, view):
    """Compare poses and velocities of links with MuJoCo's of the same state."""
    poses, speeds = view.get_link_transforms(), view.get_link_velocities()
    for env in range(2):
        data = mujoco.MjData(world.model)
        data.qpos, data.qvel = world.qpos[env].numpy(), world.qvel[env].numpy()
        mujoco.mj_forward(world.model, data)
        for column, name in enumerate(view.shared_metatype.link_names):
            place = data.body(f"{HAND}/{name}").xpos + world.origins[env].numpy()
            assert poses[env, column, :3].tolist() == pytest.approx(place, abs=1e-5), name
            turning = data.body(f"{HAND}/{name}").cvel[:3]
            assert speeds[env, column, 3:].tolist() == pytest.approx(turning, abs=1e-4), name


def test_a_write_in_one_environment_computes_nothing_for_the_others(world, monkeypatch):
    view = views.simulation_view().create_articulation_view(HAND)
    world.step()
    assert_links_follow(world, view)  # which makes the simulation with these fields
    refreshed: list[None] = []
    refresh = world.simulation.refresh

    def counted() -> None:
        refreshed.append(None)
        refresh()

    monkeypatch.setattr(world.simulation, "refresh", counted)
    rows = torch.rand(2, len(view.shared_metatype.dof_names))
    for write in (view.set_dof_positions, view.set_dof_velocities):
        write(0.2 * rows, torch.tensor([1]))
        assert_links_follow(world, view)
    assert not refreshed
    world.step()
    assert_links_follow(world, view)
    assert len(refreshed) == 1


def ball_on(heights: np.ndarray, x: float) -> tuple[int, np.ndarray]:
    """Drop a ball on a terrain of 4 m; return the kind of its shape, and where the ball is then."""
    shown = stage.renew()
    put("/World/ground", None, Terrain(heights, (-2.0, -2.0), 0.1))
    path = f"{stage.FIRST}/Ball"
    shown.define(path)
    ball = Body(lambda body: body.add_geom(size=[0.1, 0.0, 0.0], mass=1.0))
    put(path, None, ball, (x, 0.0, 0.65))
    shown.repeat(1, np.zeros((1, 3)))
    falling = SimpleNamespace(**{**vars(CFG), "gravity": (0.0, 0.0, -9.81)})
    world = World(shown, falling, torch.device("cpu"))
    for _ in range(200):
        world.step()
    found = int(world.model.geom("/World/ground").type[0]), world.qpos[0].numpy().copy()
    world.close()
    stage.renew()
    return found


@pytest.mark.parametrize(("x", "rests"), [(0.03, True), (1.95, True), (2.05, False)])
def test_a_flat_terrain_is_a_box_that_ends_where_its_height_field_would(x, rests):
    flat = np.full((41, 41), 0.5)
    dented = flat.copy()
    dented[0, 0] -= 1e-4  # far from the ball
    kind, place = ball_on(flat, x)
    assert kind == mujoco.mjtGeom.mjGEOM_BOX
    other, expected = ball_on(dented, x)
    assert other == mujoco.mjtGeom.mjGEOM_HFIELD
    assert (place[2] > 0.59) == (expected[2] > 0.59) == rests
    if rests:
        np.testing.assert_allclose(place, expected, atol=1e-4)


def test_vertical_rays_hit_a_flat_terrain_at_its_height():
    shown = stage.renew()
    put("/World/ground", None, Terrain(np.full((3, 3), 0.5), (-1.0, -1.0), 1.0))
    shown.repeat(1, np.zeros((1, 3)))
    starts = torch.tensor([[[0.3, 0.2, 2.0], [0.3, 0.2, 0.4], [0.3, 0.2, 9.0]]])
    down = torch.tensor([0.0, 0.0, -1.0]).expand_as(starts)
    hits = height_rays(pytest.fail)(starts, down, mesh=None, max_dist=5.0)[0]
    assert hits[0, :, 2].tolist() == [0.5, math.inf, math.inf]
    stage.renew()


def test_a_links_place_on_the_stage_is_that_of_its_spawning(world):
    data = views.simulation_view().create_articulation_view(HAND)
    links = data.shared_metatype.link_names
    poses = data.get_link_transforms()
    for number, path in enumerate((HAND, HAND.replace("env_0", "env_1"))):
        world.stage.define(f"{path}/robot0_ffdistal")
        prim = world.stage.get(f"{path}/robot0_ffdistal")
        placed = Xformable(prim).ComputeLocalToWorldTransform(0)
        turn = placed.ExtractRotationQuat()
        expected = poses[number, links.index("robot0_ffdistal")]
        found = [*placed.ExtractTranslation(), *turn.imaginary, turn.real]
        assert found == pytest.approx(expected.tolist(), abs=1e-6)
    moved = torch.full((2, len(data.shared_metatype.dof_names)), 0.2)
    data.set_dof_positions(moved, torch.arange(2))
    still = Xformable(prim).ComputeLocalToWorldTransform(0).ExtractTranslation()
    assert still == placed.ExtractTranslation()


def test_cameras_fixed_to_environments_on_a_terrain_are_where_those_are():
    shown = stage.renew()
    terrain = Terrain(np.zeros((21, 21)), (-10.0, -10.0), 1.0)
    put("/World/ground", None, terrain)
    path = f"{stage.FIRST}/Camera"
    prim = shown.define(path, "Camera")
    prim.pos = np.array([0.0, 0.0, 4.0])  # it looks down
    prim.attributes |= {
        "focalLength": 20.0,
        "horizontalAperture": 20.0,
        "clippingRange": (0.1, 20.0),
    }
    shown.repeat(2, np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]]))
    world = World(shown, CFG, torch.device("cpu"))
    cfg = SimpleNamespace(
        prim_path=path.replace("env_0", "env_.*"),
        spawn=None,
        width=3,
        height=3,
        data_types=["depth"],
        depth_clipping_behavior="none",
        colorize_semantic_segmentation=True,
    )
    views_of = [CameraView(world, cfg)]
    prim_of_another = shown.define(f"{stage.FIRST}/Another", "Camera")
    prim_of_another.attributes |= prim.attributes
    cfg_of_another = SimpleNamespace(**{**vars(cfg), "prim_path": f"{stage.ENVS}/env_.*/Another"})
    views_of.append(CameraView(world, cfg_of_another))
    drawn = views_of[0].draw(torch.arange(2))["depth"]
    assert drawn[:, 1, 1, 0].tolist() == pytest.approx([4.0, 5.0], abs=1e-4)
    places, turns = views_of[0].get_world_poses()
    assert places.tolist() == [[1.0, 2.0, 4.0], [3.0, 4.0, 5.0]]
    assert turns.tolist() == [[1.0, 0.0, 0.0, 0.0]] * 2
    assert views_of[1].get_world_poses()[0].tolist() == [[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]]
    turned = torch.tensor([[0.0, 1.0, 0.0, 0.0]])  # it looks up
    views_of[0].set_world_poses(torch.tensor([[0.0, 0.0, 7.0]]), turned, [1])
    assert views_of[0].get_world_poses()[0].tolist() == [[1.0, 2.0, 4.0], [0.0, 0.0, 7.0]]
    drawn = views_of[0].draw(torch.arange(2))["depth"]
    assert drawn[:, 1, 1, 0].tolist() == pytest.approx([4.0, math.inf])
    world.close()
    stage.renew()


def test_a_camera_of_a_usd_file_is_refused():
    shown = stage.renew()
    world = World(shown, CFG, torch.device("cpu"))
    cfg = SimpleNamespace(prim_path="/World/Camera", spawn=None)
    with pytest.raises(ConfigurationError, match="/World/Camera is a camera without spawn"):
        CameraView(world, cfg)
    stage.renew()


@pytest.mark.parametrize(
    ("file", "root", "links", "kilograms"),
    [
        ("Robots/Unitree/A1/a1.usd", "trunk", 17, 12.454),
        ("Robots/ANYbotics/ANYmal-B/anymal_b.usd", "base", 17, 30.6214),
        ("Robots/ANYbotics/ANYmal-C/anymal_c.usd", "base", 17, 52.1348),
        ("Robots/Agility/Cassie/cassie.usd", "pelvis", 13, 30.468),
    ],
)
def test_a_file_of_nvidias_leads_to_its_robot(file, root, links, kilograms):
    found = find_robot(f"nucleus:/Isaac/IsaacLab/{file}")
    assert found.links()[0] == root
    assert len(found.links()) == links
    assert len(found.joints()) == 12
    model = found.spec.compile()
    assert model.body(root).subtreemass[0] == pytest.approx(kilograms, abs=1e-3)
