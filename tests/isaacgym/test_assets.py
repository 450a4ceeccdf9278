"""Properties that are read from URDF and MJCF files."""

from __future__ import annotations

import math
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest

from envlab.errors import ConfigurationError
from envlab_isaacgym import gymapi
from envlab_isaacgym.assets import Asset, load_asset
from tests.isaacgym.worlds import BOX, joint, link, options, urdf
from tests.refusals import check_refusals

GYM = gymapi.acquire_gym()


def loaded(folder: Path, *parts: str, **values: object) -> Asset:
    """Return the asset of a URDF file of these parts, with options."""
    return load_asset(str(folder), urdf(folder, *parts), options(**values))


def mjcf(folder: Path, bodies: str, others: str = "", **values: object) -> Asset:
    """Return the asset of an MJCF file of these bodies and other elements, with options."""
    text = f"<mujoco><worldbody>{bodies}</worldbody>{others}</mujoco>"
    (folder / "robot.xml").write_text(text)
    return load_asset(str(folder), "robot.xml", options(**values))


def test_urdf_is_ordered_by_name_and_depth_first(tmp_path):
    parts = [link("base")]
    for leg in ("RL", "FR", "FL"):
        parts += [link(f"{leg}_hip"), link(f"{leg}_foot")]
        parts += [joint(f"{leg}_a", "base", f"{leg}_hip")]
        parts += [joint(f"{leg}_b", f"{leg}_hip", f"{leg}_foot")]
    asset = loaded(tmp_path, *parts)
    bodies = "base FL_hip FL_foot FR_hip FR_foot RL_hip RL_foot"
    assert GYM.get_asset_rigid_body_names(asset) == bodies.split()
    assert GYM.get_asset_dof_names(asset) == "FL_a FL_b FR_a FR_b RL_a RL_b".split()


def test_mjcf_keeps_the_order_of_the_file(tmp_path):
    limb = '<body name="{0}"><joint name="{0}"/><geom size="0.1"/></body>'
    bodies = "".join(limb.format(name) for name in ("b", "a", "c"))
    asset = mjcf(tmp_path, f'<body name="root"><geom size="0.1"/>{bodies}</body>')
    assert asset.dof_names == ["b", "a", "c"]
    assert asset.is_floating


def test_fixed_joints_collapse_unless_they_say_not_to(tmp_path):
    parts = (
        link("base", 2.0),
        link("imu", 1.0),
        link("foot", 0.5),
        joint("imu_joint", "base", "imu", "fixed", xyz="0.3 0 0"),
        joint("foot_joint", "imu", "foot", "fixed", extra='dont_collapse="true"', xyz="0 0 1"),
    )
    asset = loaded(tmp_path, *parts, collapse_fixed_joints=True)
    assert asset.body_names == ["base", "foot"]
    body = asset.bodies[0]
    assert body.mass == pytest.approx(3.0)
    assert body.com.x == pytest.approx(0.1)
    # 2 kg at -0.1 m and 1 kg at 0.2 m from the common centre, and 0.01 of each link itself.
    assert body.inertia.y.y == pytest.approx(0.02 + 2 * 0.1**2 + 1 * 0.2**2)
    assert asset.model.body("foot").pos == pytest.approx([0.3, 0, 1])
    assert loaded(tmp_path, *parts).body_names == ["base", "imu", "foot"]


def test_inertia_comes_from_shapes_where_the_file_has_none(tmp_path):
    parts = (
        f'<link name="heavy"><inertial><mass value="6"/></inertial>{BOX}</link>',
        f'<link name="dense">{BOX}</link>',
        '<link name="frame"/>',
        joint("a", "heavy", "dense"),
        joint("b", "heavy", "frame", "fixed"),
    )
    asset = loaded(tmp_path, *parts, density=500.0)
    heavy, dense, frame = (asset.bodies[asset.body_names.index(n)] for n in asset.body_names)
    assert [one.mass for one in (heavy, dense)] == pytest.approx([6.0, 500 * 0.2**3])
    assert heavy.inertia.x.x == pytest.approx(6 * 0.2**2 / 6)  # of a cube
    assert 0 < frame.mass < 0.01


def test_an_inertia_that_no_body_has_comes_from_shapes_too(tmp_path, caplog):
    """AllegroKuka's fingers have such, with products of inertia larger than the moments."""
    wrong = '<inertia ixx="7e-5" iyy="4e-5" izz="7e-5" ixy="-1e-4" ixz="6e-5" iyz="-4e-5"/>'
    finger = f'<link name="finger"><inertial><mass value="6"/>{wrong}</inertial>{BOX}</link>'
    asset = loaded(tmp_path, finger)
    assert asset.bodies[0].mass == pytest.approx(6.0)
    assert asset.bodies[0].inertia.x.x == pytest.approx(6 * 0.2**2 / 6)
    assert "inertia of the link 'finger' is impossible" in caplog.text


def test_dof_properties_are_those_of_the_file(tmp_path):
    limit = 'lower="-1" upper="2" effort="30" velocity="5"'
    parts = [link(one) for one in "abc"]
    parts += [joint("ab", "a", "b", limit=limit), joint("bc", "b", "c", "continuous")]
    asset = loaded(tmp_path, *parts, armature=0.1, default_dof_drive_mode=3)
    limited, free = GYM.get_asset_dof_properties(asset)
    names = ["hasLimits", "lower", "upper", "velocity", "effort"]
    assert limited[names].tolist() == (True, -1.0, 2.0, 5.0, 30.0)
    assert limited["driveMode"] == gymapi.DOF_MODE_EFFORT
    assert limited["armature"] == pytest.approx(0.1)
    assert not free["hasLimits"]


def test_unknown_attributes_of_an_mjcf_are_named(tmp_path, caplog):
    second = '<geom name="g" size="0.1" pos="1 0 0" material="undefined"/>'
    bodies = f'<body name="root"><geom name="g" size="0.1"/>{second}</body>'
    asset = mjcf(tmp_path, bodies, '<option apirate="50"/>', fix_base_link=True)
    assert "'apirate' of <option>" in caplog.text
    assert len(asset.shapes) == 2
    assert not asset.is_floating


def test_roots_that_are_locked_float_and_tendons_can_be_changed(tmp_path):
    """IsaacGymEnvs' Ingenuity locks its root by 0..0, and expects it to float."""
    bodies = (
        '<body name="root"><joint name="locked" limited="true" range="0 0"/>'
        '<geom size="0.1"/><body name="arm"><joint name="arm"/><geom size="0.1"/></body></body>'
    )
    tendon = '<fixed name="t" damping="2"><joint joint="arm" coef="1"/></fixed>'
    asset = mjcf(tmp_path, bodies, f"<tendon>{tendon}</tendon>")
    assert asset.is_floating
    assert asset.dof_names == ["arm"]
    (tendon,) = GYM.get_asset_tendon_properties(asset)
    assert tendon.damping == 2.0
    tendon.damping = 0.5
    GYM.set_asset_tendon_properties(asset, [tendon])
    assert GYM.get_asset_tendon_properties(asset)[0].damping == 0.5
    assert asset.spec.copy().compile().tendon_damping[0].max() == 0.5


def test_meshes_are_found_in_the_package_above_or_named_as_missing(tmp_path):
    mesh = '<collision><geometry><mesh filename="package://robot/meshes/{}.obj"/></geometry></collision>'
    (tmp_path / "urdf").mkdir()
    (tmp_path / "meshes").mkdir()
    corners = ["v 0 0 0", "v 1 0 0", "v 0 1 0", "v 0 0 1"]
    faces = ["f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]
    (tmp_path / "meshes" / "found.obj").write_text("\n".join(corners + faces))
    folder = tmp_path / "urdf"
    assert len(loaded(folder, link("base", 1.0, mesh.format("found"))).shapes) == 1
    with pytest.raises(ConfigurationError, match=r"lost\.obj', which is neither next to it"):
        loaded(folder, link("base", 1.0, mesh.format("lost")))


def test_bad_files_are_one_sentence(tmp_path):
    def read(text: str) -> None:
        (tmp_path / "robot").write_text(text)
        load_asset(str(tmp_path), "robot", None)

    check_refusals(
        read,
        [
            ("<scene/>", "begins with <scene>"),
            ("<robot", "is not XML"),
            ('<robot><link name="a"/><link name="b"/></robot>', "has 2 root links"),
            ("<mujoco><worldbody><bod/></worldbody></mujoco>", "MuJoCo cannot read"),
        ],
    )
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_asset(str(tmp_path), "elsewhere", None)


def test_terrain_of_triangles_becomes_the_grid_that_it_was_made_of():
    from envlab_isaacgym import terrain_utils

    heights = np.arange(20, dtype=np.int16).reshape(4, 5)
    vertices, triangles = terrain_utils.convert_heightfield_to_trimesh(heights, 0.5, 0.1)
    params = gymapi.TriangleMeshParams()
    params.transform.p.x = -3.0
    sim = GYM.create_sim(0, -1, gymapi.SIM_PHYSX, gymapi.SimParams())
    GYM.add_triangle_mesh(sim, vertices.flatten(), triangles.flatten(), params)
    np.testing.assert_allclose(sim.terrains[-1].heights, heights * 0.1, atol=1e-6)
    assert sim.terrains[-1].cell == pytest.approx((0.5, 0.5))
    assert sim.terrains[-1].origin.x == -3.0


def test_the_upper_surface_of_other_triangles_is_stood_on():
    """A ramp z = x / 2 on 2 m x 1 m, of two triangles, and a platform at z = 3 upon upright walls.

    The platform lies over x of 0.5 to 1 and y of 0.5 to 1, so that cells are of 0.5 m.
    """
    ramp = [[0, 0, 0], [2, 0, 1], [2, 1, 1], [0, 1, 0]]
    above = [[0.5, 0.5, 3], [1, 0.5, 3], [1, 1, 3], [0.5, 1, 3]]
    below = [[x, y, 0] for x, y, _ in above]
    vertices = np.array([*ramp, *above, *below])
    wall = [[4, 8, 9], [4, 9, 5]]
    triangles = np.array([[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7], *wall])
    sim = GYM.create_sim(0, -1, gymapi.SIM_PHYSX, gymapi.SimParams())
    params = gymapi.TriangleMeshParams()
    GYM.add_triangle_mesh(sim, vertices + np.array([1, 2, 0]), triangles, params)
    expected = np.array([[0, 0, 0], [0.25, 3, 3], [0.5, 3, 3], [0.75] * 3, [1, 1, 1]])
    np.testing.assert_allclose(sim.terrains[-1].heights, expected)
    assert sim.terrains[-1].cell == pytest.approx((0.5, 0.5))
    assert (sim.terrains[-1].origin.x, sim.terrains[-1].origin.y) == (1.0, 2.0)
    with pytest.raises(ConfigurationError, match="12 vertices and 2 triangles, but all"):
        GYM.add_triangle_mesh(sim, vertices, np.array(wall), params)


def test_boxes_and_meshes_of_no_thickness_are_plates(tmp_path):
    """A square of 2 m x 1 m at x = 3, in the plane through y and z, as a file."""
    (tmp_path / "flat.obj").write_text("v 3 -1 0\nv 3 1 0\nv 3 1 1\nv 3 -1 1\nf 1 2 3\nf 1 3 4\n")
    shape = '<collision><geometry><mesh filename="flat.obj"/></geometry></collision>'
    asset = loaded(tmp_path, link("base", shape=shape))
    geom = asset.model.geom(0)
    data = mujoco.MjData(asset.model)
    mujoco.mj_kinematics(asset.model, data)
    turn = data.geom_xmat[geom.id].reshape(3, 3)
    points = asset.model.mesh_vert @ turn.T + data.geom_xpos[geom.id]
    np.testing.assert_allclose(points.min(axis=0), [3, -1, 0], atol=2e-4)
    np.testing.assert_allclose(points.max(axis=0), [3, 1, 1], atol=2e-4)
    plate = GYM.create_box(None, 0.3, 0.3, 0.0)
    np.testing.assert_allclose(plate.model.geom_size[0], [0.15, 0.15, 1e-4])


def test_numbers_are_of_32_bits():
    params = gymapi.SimParams()
    params.dt = 0.005
    assert math.ceil(0.02 / params.dt) == 5  # 4 in double precision


def test_attributes_need_no_space_between_them(tmp_path):
    text = link("base")
    joined = re.sub(r'" (\w+=)', r'"\1', text)
    assert joined != text
    assert loaded(tmp_path, joined).bodies
