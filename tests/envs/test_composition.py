"""A scene of several things: each from its own file or shape, found by its own names."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import mujoco
import pytest
import torch

from envlab.config import from_dict, to_dict
from envlab.config.ranges import check_ranges
from envlab.envs import EntityCfg, InitialStateCfg, SceneCfg, SceneEntityCfg, ShapeCfg, default
from envlab.envs.actuators import IdealPDActuatorCfg
from envlab.envs.entities import SceneEntity, joint_actuators, resolve_entity
from envlab.envs.scene import build_model
from envlab.errors import SimulationError
from envlab.sim.simulation import SimulationCfg
from tests.envs.refusals import assert_refused

ARM = """
<mujoco model="arm">
  <option integrator="implicitfast"/>
  <asset><material name="skin" rgba="1 0 0 1"/></asset>
  <worldbody>
    <body name="base"><geom name="foot" size="0.1" material="skin"/>
      <light name="lamp"/><camera name="eye"/><site name="mark"/>
      <body name="fore" pos="0 0 0.2"><joint name="elbow" axis="0 1 0"/><geom size="0.05"/></body>
    </body>
  </worldbody>
  <tendon><fixed name="cord"><joint joint="elbow" coef="1"/></fixed></tendon>
  <actuator><position name="servo" joint="elbow" kp="20"/></actuator>
  <sensor><jointpos name="angle" joint="elbow"/></sensor>
  <keyframe><key name="home" qpos="0.4"/></keyframe>
</mujoco>
"""
BALL = ShapeCfg(type="sphere", size=(0.05,), mass=0.2)
TABLE = EntityCfg(
    shape=ShapeCfg(size=(0.5, 0.5, 0.02)), init_state=InitialStateCfg(pos=(0, 0, -0.2))
)


@pytest.fixture
def arm(tmp_path) -> EntityCfg:
    (tmp_path / "arm.xml").write_text(ARM)
    return EntityCfg(model=str(tmp_path / "arm.xml"))


def scene(**entities: EntityCfg) -> SceneCfg:
    return SceneCfg(entities=entities)


def select(model: mujoco.MjModel, name: str = "robot", **names: object) -> SceneEntity:
    return resolve_entity(SceneEntityCfg(name, **names), model, torch.device("cpu"))


def placed(entity: EntityCfg, *pos: float, **changes: object) -> EntityCfg:
    """Return a copy of a thing at another place."""
    return from_dict(
        EntityCfg, {**to_dict(entity), "init_state": {"pos": list(pos), **changes}}, "entity"
    )


def test_things_have_their_own_names_poses_and_states(arm):
    ball = EntityCfg(shape=BALL, init_state=InitialStateCfg(pos=(0.3, 0.0, 0.5)))
    model = build_model(scene(robot=arm, ball=ball, table=TABLE))
    robot, found = select(model), select(model, "ball")
    assert robot.joint_names == ["robot/elbow"]
    assert robot.body_names == ["robot/base", "robot/fore"]
    assert (found.root_qpos_start, found.body_names) == (1, ["ball/ball"])
    assert model.key("home").qpos.tolist() == [0.4, 0.3, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0]
    assert model.key("home").ctrl.tolist() == [0.4]
    assert model.body("table/table").pos.tolist() == [0.0, 0.0, -0.2]
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST


def test_every_kind_of_part_is_found_within_its_thing(arm):
    two = scene(left=placed(arm, 0, 0, 1), right=placed(arm, 1, 0, 1, joint_pos={"elbow": 0.7}))
    model = build_model(two)
    for index, name in enumerate(("left", "right")):
        one = select(
            model,
            name,
            joint_names="elbow",
            body_names="f.*",
            sensor_names="angle",
            site_names="mark",
            geom_names="foot",
            tendon_names="cord",
            camera_names="eye",
            light_names="lamp",
            material_names="skin",
            actuator_names="servo",
        )
        row = slice(index, index + 1)
        assert (one.joint_ids, one.sensor_ids, one.site_ids, one.actuator_ids) == (row,) * 4
        kinds = ("tendon", "camera", "light", "material")
        assert [one.others[kind] for kind in kinds] == [row] * 4
        assert one.body_names == [f"{name}/fore"]
    assert model.key("home").qpos.tolist() == [0.4, 0.7]
    assert joint_actuators(model, "right/elbow") == [1]


def test_an_empty_prefix_keeps_the_names_of_a_file(arm):
    arm.prefix = ""
    model = build_model(scene(ball=EntityCfg(shape=BALL), robot=arm))
    assert select(model).joint_names == ["elbow"]
    assert select(model, "ball").body_names == ["ball/ball"]


def test_actuators_of_a_thing_replace_those_of_its_file(arm):
    arm.actuators = {"arm": IdealPDActuatorCfg(joint_names_expr=["elbow"], stiffness=7.0)}
    cfg = scene(robot=arm, other=EntityCfg(model=arm.model))
    model = build_model(cfg, SimulationCfg(dt=0.01))
    assert model.actuator_gainprm[:, 0].tolist() == [7.0, 20.0]
    assert list(cfg.all_actuators) == ["robot/arm"]


def test_urdf_things_and_hooks(tmp_path):
    (tmp_path / "stick.urdf").write_text(
        '<robot name="stick"><link name="rod"><inertial><mass value="1"/><inertia ixx="1" iyy="1" '
        'izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>'
    )

    def add_mark(spec: mujoco.MjSpec) -> None:
        spec.body("rod").add_site(name="tip")

    def add_pole(spec: mujoco.MjSpec) -> None:
        spec.worldbody.add_geom(name="pole", size=[0.1, 0, 0])

    stick = EntityCfg(model=str(tmp_path / "stick.urdf"), spec_fn=add_mark)
    model = build_model(SceneCfg(entities={"robot": stick}, spec_fn=add_pole))
    assert model.jnt_type.tolist() == [mujoco.mjtJoint.mjJNT_FREE]
    assert model.site("robot/tip").id == 0
    assert model.geom("pole").bodyid == 0


def test_things_are_fields_as_in_isaac_lab_and_survive_a_file(arm):
    @dataclass(kw_only=True)
    class TableScene(SceneCfg):
        robot: EntityCfg = default(arm)
        table: EntityCfg | None = default(TABLE)

    cfg = TableScene(entities={"ball": EntityCfg(shape=BALL)})
    assert list(cfg.all_entities) == ["robot", "table", "ball"]
    read = from_dict(TableScene, to_dict(cfg), "env.scene")
    assert read == cfg
    cfg.table = None
    assert list(cfg.all_entities) == ["robot", "ball"]


def test_a_file_of_meshes_in_another_folder_joins(tmp_path):
    (tmp_path / "assets").mkdir()
    corners = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["f 1 2 3", "f 2 4 3", "f 5 6 7"]
    (tmp_path / "assets" / "cube.obj").write_text("\n".join(lines))
    (tmp_path / "thing.xml").write_text(
        '<mujoco><compiler meshdir="assets"/><asset><mesh file="cube.obj"/></asset><worldbody>'
        '<body name="it"><freejoint/><geom type="mesh" mesh="cube"/></body></worldbody></mujoco>'
    )
    thing = EntityCfg(model=str(tmp_path / "thing.xml"))
    cube = ShapeCfg(type="mesh", file=str(tmp_path / "assets" / "cube.obj"), mass=1.0)
    model = build_model(scene(table=TABLE, thing=thing, cube=EntityCfg(shape=cube)))
    assert model.nmesh == 2


def test_a_file_that_is_the_whole_scene_leaves_things_out(arm, caplog):
    with caplog.at_level(logging.WARNING):
        model = build_model(SceneCfg(model=arm.model, entities={"ball": EntityCfg(shape=BALL)}))
    assert model.nbody == 3
    assert "ball are ignored" in caplog.text


def test_what_cannot_be_composed_is_named(arm, tmp_path):
    def write(name: str, text: str) -> EntityCfg:
        (tmp_path / name).write_text(text)
        return EntityCfg(model=str(tmp_path / name))

    broken = write("broken.xml", "<mujoco><worldbody><geom/></worldbody></mujoco>")
    lost = write(
        "lost.xml",
        '<mujoco><worldbody><body name="a"><geom size="1"/></body></worldbody><sensor><framepos '
        'name="far" objtype="body" objname="world"/></sensor></mujoco>',
    )
    pair = write(
        "pair.xml",
        '<mujoco><worldbody><body><freejoint/><geom size="1"/></body><body><geom size="1"/></body>'
        "</worldbody></mujoco>",
    )
    pair.init_state = InitialStateCfg(pos=(1, 0, 0))
    ball = EntityCfg(shape=BALL)
    two = build_model(scene(left=arm, right=arm))
    assert_refused(
        {
            "'a' and 'b' of env.scene.entities both have the prefix 'x'": lambda: build_model(
                scene(a=EntityCfg(shape=BALL, prefix="x"), b=EntityCfg(shape=BALL, prefix="x"))
            ),
            "prefix 'x/y', but names and": lambda: build_model(
                scene(a=EntityCfg(shape=BALL, prefix="x/y"))
            ),
            "entities.a has neither a model nor a shape": lambda: build_model(scene(a=EntityCfg())),
            r"thing 'a' \(.*lost.xml\) cannot join.*drops 1 of its sensors": lambda: build_model(
                scene(a=lost, ball=ball)
            ),
            "entities.a.init_state places a thing of several bodies": lambda: build_model(
                scene(a=pair, ball=ball)
            ),
            "a sphere with 3 sizes": lambda: build_model(
                scene(a=EntityCfg(shape=ShapeCfg(type="sphere", size=(1, 1, 1))))
            ),
            "entities.a.mocap is true, but the thing has the joint": lambda: build_model(
                scene(a=EntityCfg(shape=BALL, mocap=True, floating_base=True))
            ),
            r"entities.a.actuators.arm: no hinge.*'knee'; it has elbow": lambda: build_model(
                scene(
                    a=EntityCfg(
                        model=arm.model,
                        actuators={"arm": IdealPDActuatorCfg(joint_names_expr=["knee"])},
                    )
                )
            ),
            "No joint of the thing 'left' matches 'elbwo'; it has elbow": lambda: select(
                two, "left", joint_names="elbwo"
            ),
            "The scene has no 'middle'; its things are left, right": lambda: select(two, "middle"),
            "joint 'elbow' is one of 2 things: left, right": lambda: joint_actuators(two, "elbow"),
            "env.scene.init_state is set, but belongs to a scene of one": lambda: check_ranges(
                SceneCfg(entities={"a": ball}, init_state=InitialStateCfg()), "env.scene"
            ),
        }
    )
    assert_refused(
        {
            r"broken\.xml.*size": lambda: build_model(scene(ball=ball, a=broken)),
            "entities.a.model is 'no.xml'": lambda: build_model(scene(a=EntityCfg(model="no.xml"))),
        },
        SimulationError,
    )


def test_a_run_that_names_the_file_of_before_gets_the_scene(arm, caplog):
    cfg = SceneCfg(model="old.xml", replaces="old.xml", entities={"robot": arm})
    assert select(build_model(cfg)).joint_names == ["robot/elbow"]
    assert not caplog.records
