"""Loading models, and finding joints, bodies, sensors and actuators of them by name."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from envlab.config import read_yaml, write_yaml
from envlab.envs import SceneCfg, SceneEntity, SceneEntityCfg
from envlab.envs.actuators import DCMotorCfg, DelayedPDActuatorCfg, IdealPDActuatorCfg
from envlab.envs.entities import joint_actuators, resolve_entity
from envlab.envs.initial_state import InitialStateCfg
from envlab.envs.scene import build_model, load_model
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim.simulation import SimulationCfg
from tests.envs.refusals import assert_refused
from tests.envs.sliders import MODEL
from tests.refusals import check_refusals

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


def select(model: mujoco.MjModel, **names: str | list[str]) -> SceneEntity:
    return resolve_entity(SceneEntityCfg(**names), model, torch.device("cpu"))


def test_what_is_not_there_is_named(sliders, mixed, tmp_path):
    """Joints with an actuator are listed where all are named, as in the template of a task."""
    end = "</body></body>"
    toe = ARM.replace(end, '<body><joint name="toe"/><geom size=".1"/></body>' + end)
    driven = toe.replace("</worldbody>", '</worldbody><actuator><motor joint="elbow"/></actuator>')
    model = mujoco.MjModel.from_xml_string(driven)
    assert joint_actuators(model, "elbow") == [0]
    late, misspelt = {"kind": "delayed_pd", "min_delay": 1}, {"joint_names": "pus"}

    def read(**values: object) -> SceneCfg:
        write_yaml(tmp_path / "scene.yaml", {"actuators": {"hip": values}})
        return read_yaml(tmp_path / "scene.yaml", SceneCfg)

    def start(**state: object) -> object:
        return build(tmp_path, init_state=InitialStateCfg(**state))

    assert_refused(
        {
            "'nowhere.xml', but nowhere.xml is not a file": lambda: load_model("nowhere.xml"),
            r"no_such\.xml is not a file": lambda: load_model("envlab_assets:robots/no_such.xml"),
            r"env\.scene\.model is ''": lambda: load_model(""),
        },
        SimulationError,
    )
    assert_refused(
        {
            "matches 'ankle'; it has hip, knee": lambda: start(joint_pos={"ankle": 0.1}),
            "of length 1.414, but must be a quat": lambda: start(rot=(1.0, 1.0, 0.0, 0.0)),
            r"actuators\.hip\.stifness'\. Did you mean": lambda: read(stifness=1.0),
            r"hip\.velocity_limit is missing: DCMotorCfg": lambda: read(saturation_effort=1.0),
            r"hip\.max_delay is missing: DelayedPDActuatorCfg": lambda: read(**late),
            r"No joint of the model matches 'pus'.*push": lambda: select(sliders, **misspelt),
        }
    )
    check_refusals(
        joint_actuators,
        [
            (mixed, "ball", "'ball', which has 0 actuators.*Those with one are none: name them"),
            (mixed, "hinge", "'hinge', which has 2 actuators"),
            (model, ".*", "'toe', which has 0.*Those with one are elbow:"),
        ],
    )


def test_joints_sensors_and_bodies_span_their_columns(mixed):
    joints = [select(mixed, joint_names=name) for name in ("root", "ball", "hinge")]
    assert [(one.qpos_ids, one.qvel_ids) for one in joints] == [
        (slice(0, 7), slice(0, 6)),
        (slice(7, 11), slice(6, 9)),
        (slice(11, 12), slice(9, 10)),
    ]
    assert select(mixed, sensor_names="tip").sensor_ids == slice(1, 4)
    assert select(mixed, body_names="tip").body_ids == slice(3, 4)


ROBOT = """
<mujoco>
  <worldbody>
    <body name="trunk" pos="0 0 0.5"><freejoint/><geom type="box" size="0.2 0.1 0.05" mass="5"/>
      <body name="leg"><joint name="hip" axis="0 1 0"/><geom size="0.05" pos="0 0 -0.3" mass="1"/>
        <body name="shin"><joint name="knee" axis="0 1 0"/><geom size="0.05" pos="0 0 -.4" mass="1"
        /></body>
      </body>
    </body>
  </worldbody>
  <actuator><position name="hip_servo" joint="hip" kp="20"/></actuator>
  {rest}
</mujoco>
"""
HOME = '<keyframe><key name="home" qpos="0 0 .4 1 0 0 0 0.1 -0.2" ctrl="0.1"/></keyframe>'
ARM = (
    '<mujoco><worldbody><body name="base"><geom size="0.1"/><body name="arm"><joint name="elbow"/>'
    '<geom size="0.1" pos="0.3 0 0"/></body></body></worldbody></mujoco>'
)
HOPPER = (
    '<mujoco><worldbody><body name="torso"><joint name="rootx" type="slide" axis="1 0 0"/><joint '
    'name="rootz" type="slide" axis="0 0 1"/><joint name="rooty" axis="0 1 0"/><geom size="0.1"/>'
    '<body name="leg" pos="0 0 -0.3"><joint name="hip" axis="0 1 0"/><geom size="0.1"/></body>'
    "</body></worldbody><actuator>{actuators}</actuator></mujoco>"
)


def build(folder, text: str = ROBOT.format(rest=""), name: str = "robot.xml", **fields):
    (folder / name).write_text(text)
    return build_model(SceneCfg(model=str(folder / name), **fields))


def home(model: mujoco.MjModel) -> list[float]:
    return model.key("home").qpos.round(6).tolist()


def test_a_robot_that_moves_freely_gets_floor_light_and_camera(tmp_path):
    model = build(tmp_path)
    assert model.geom("floor").type == mujoco.mjtGeom.mjGEOM_PLANE
    assert model.geom("floor").pos.tolist() == [0.0, 0.0, 0.0]
    assert (model.nlight, model.ncam) == (1, 1)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    forward = -data.cam_xmat[0].reshape(3, 3)[:, 2]  # a camera looks along its negative z axis
    to_robot = data.subtree_com[1] - data.cam_xpos[0]
    assert forward @ to_robot / (to_robot @ to_robot) ** 0.5 == pytest.approx(1.0, abs=1e-6)
    mujoco.mj_step(model, data, 1000)
    assert 0.0 < data.qpos[2] < 0.5  # it lies on the floor


def test_where_the_mass_of_a_lone_body_lies_can_change(tmp_path):
    """MuJoCo would compile it for a mass at its origin, and refuse another."""
    (tmp_path / "cube.xml").write_text(
        '<mujoco><worldbody><body name="cube"><freejoint/><geom type="box" size=".1 .2 .3"/>'
        "</body></worldbody></mujoco>"
    )
    for field in ("body_ipos", "body_iquat"):
        model = build_model(
            SceneCfg(model=str(tmp_path / "cube.xml")), SimulationCfg(model_fields=(field,))
        )
        data, inertia = mujoco.MjData(model), np.zeros((6, 6))
        getattr(model, field)[1, -1] = 0.05
        mujoco.mj_setConst(model, data)
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, inertia)
        assert np.count_nonzero(inertia.round(6)) > 6, field  # an axis moves another


def test_when_there_is_a_floor(tmp_path):
    robot, up = ROBOT.format(rest=""), 'axis="0 0 1"'
    own = robot.replace("<worldbody>", '<worldbody><geom type="plane" size="1 1 1"/>')
    table = [
        (robot, False, False),
        (ARM, "auto", False),  # a fixed arm needs none
        (ARM, True, True),
        (HOPPER.format(actuators='<motor joint="hip"/>'), "auto", True),  # it would fall for ever
        (HOPPER.format(actuators='<position joint="rootz"/>'), "auto", False),  # it is lifted
        (HOPPER.replace(up, f'{up} range="0 1" limited="true"'), "auto", False),
        (HOPPER.replace(up, f'{up} stiffness="9"'), "auto", False),
        (HOPPER.replace("<worldbody>", '<option gravity="0 0 0"/><worldbody>'), "auto", False),
        (HOPPER.replace(up, 'axis="0 1 0"'), "auto", False),  # it slides on a plane
        (own, "auto", False),
    ]
    for text, ground, has_floor in table:
        model = build(tmp_path, text.format(actuators=""), ground=ground)
        found = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, "floor") >= 0
        assert found == has_floor, text


SKY = '<asset><texture type="skybox" builtin="flat" rgb1="1 0 0" width="8" height="8"/></asset>'


def test_every_scene_has_a_sky_and_keeps_its_own_sky_lights_and_cameras(tmp_path):
    """A fixed arm, which gets no floor, used to be shown against black."""
    for text, is_own in ((ARM, False), (ARM.replace("<worldbody>", f"{SKY}<worldbody>"), True)):
        model = build(tmp_path, text)
        assert model.tex_type.tolist() == [mujoco.mjtTexture.mjTEXTURE_SKYBOX]
        assert (model.tex_height[0] == 6 * 8) == is_own
        assert model.ngeom == mujoco.MjModel.from_xml_string(text).ngeom
    own = '<worldbody><light name="lamp"/><camera name="eye"/>'
    model = build(tmp_path, ROBOT.format(rest="").replace("<worldbody>", own))
    assert (model.nlight, model.ncam) == (1, 1)
    assert (model.light(0).name, model.camera(0).name) == ("lamp", "eye")


def test_urdf_moves_freely_unless_its_first_link_is_the_world(tmp_path):
    link = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" '
    link += 'ixz="0" iyz="0"/></inertial></link>'
    joint = '<joint name="j" type="revolute"><parent link="{}"/><child link="arm"/><axis '
    joint += 'xyz="0 1 0"/><limit lower="-1" upper="1" effort="5" velocity="3"/></joint>'

    def urdf(root: str) -> str:
        return (
            f'<robot name="r">{link.format(root)}{link.format("arm")}{joint.format(root)}</robot>'
        )

    assert build(tmp_path, urdf("base"), "r.urdf").nq == 8
    assert build(tmp_path, urdf("world"), "r.urdf").nq == 1
    assert build(tmp_path, urdf("base"), "r.urdf", floating_base=False).nq == 1
    with pytest.raises(ConfigurationError, match="but the body 'arm' is attached to the world"):
        build(tmp_path, urdf("world"), "r.urdf", floating_base=True)


def test_mjcf_is_freed_or_fixed_only_when_asked(tmp_path):
    assert build(tmp_path, ARM).nq == 1
    assert build(tmp_path, ARM, floating_base=True).nq == 8
    assert build(tmp_path, floating_base=False).nq == 2
    hinged = ARM.replace('<body name="base">', '<body name="base"><joint name="swing"/>')
    with pytest.raises(ConfigurationError, match="attached to the world by the joint 'swing'"):
        build(tmp_path, hinged, floating_base=True)


def test_the_initial_state_lies_over_the_keyframe(tmp_path):
    state = InitialStateCfg(pos=(1.0, 2.0, 0.6), joint_pos={"kn.*": 0.7})
    without = build(tmp_path, init_state=state)
    assert home(without) == [1.0, 2.0, 0.6, 1.0, 0.0, 0.0, 0.0, 0.0, 0.7]
    text = ROBOT.format(rest=HOME)
    state = InitialStateCfg(rot=(0.0, 0.0, 0.0, 1.0), joint_pos={"knee": 0.7})
    model = build(tmp_path, text, init_state=state)
    assert home(model) == [0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 1.0, 0.1, 0.7]
    assert model.nkey == 1
    assert model.key("home").ctrl.tolist() == [0.1]  # holds the hip where it is

    fixed = build(tmp_path, ARM, init_state=InitialStateCfg(pos=(0.0, 0.0, 1.5)))
    assert fixed.body("base").pos.tolist() == [0.0, 0.0, 1.5]
    assert fixed.nq == 1


def test_actuators_of_the_configuration_replace_those_of_the_file(tmp_path):
    servo = IdealPDActuatorCfg(stiffness={"hip": 30.0, "knee": 40.0}, damping=2.0)
    model = build(tmp_path, ROBOT.format(rest=HOME), actuators={".*": servo})
    names = [model.actuator(i).name for i in range(model.nu)]
    assert names == ["hip_servo", "knee"]  # sensors and scripts may know it by its name
    assert model.actuator_gainprm[:, 0].tolist() == [30.0, 40.0]
    assert model.actuator_biasprm[:, :3].tolist() == [[0.0, -30.0, -2.0], [0.0, -40.0, -2.0]]
    assert model.key("home").ctrl.tolist() == [0.1, -0.2]
    assert home(model) == [0.0, 0.0, 0.4, 1.0, 0.0, 0.0, 0.0, 0.1, -0.2]


def test_a_scene_returns_from_a_file(tmp_path):
    """Including actuators whose class only shows in the fields that are written."""
    cfg = SceneCfg(
        model="robot.xml",
        init_state=InitialStateCfg(pos=(0.0, 0.0, 0.5)),
        ground=False,
        actuators={
            "hip": IdealPDActuatorCfg(stiffness={"hip": 5.0}),
            "knee": DCMotorCfg(saturation_effort=20.0, velocity_limit=10.0, effort_limit=8.0),
            "toe": DelayedPDActuatorCfg(min_delay=0, max_delay=3),
        },
    )
    write_yaml(tmp_path / "scene.yaml", cfg)
    assert read_yaml(tmp_path / "scene.yaml", SceneCfg) == cfg


def test_names_are_patterns_in_the_models_order(sliders, mixed):
    entity = select(sliders, joint_names=["loose", "(se|d).*"])
    assert entity.joint_names == ["servo", "drive", "loose"]
    assert entity.qpos_ids == slice(1, 4)
    assert select(sliders, joint_names=["push", "loose"]).qpos_ids.tolist() == [0, 3]
    everything = select(sliders)
    assert everything.joint_names == ["push", "servo", "drive", "loose"]
    assert everything.qpos_ids == slice(None)
    assert everything.body_ids == slice(1, 5)  # the world is none of the robot's bodies
    assert select(mixed).joint_names == ["hinge"]  # without names hinges and slides alone
    assert joint_actuators(sliders, ["drive", "servo", "push"]) == [1, 2, 0]
