"""MuJoCo's sensors, IMUs, joints' wrenches and frame transformers by configuration.

A turntable on the world's z axis carries an arm of 0.5 kg at x = 0.5 m; gravity is 10 m/s².
"""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, SceneEntityCfg, mdp
from envlab.envs.frame_transformer import FrameCfg, FrameTransformerCfg
from envlab.envs.inertial_sensors import ImuCfg, JointWrenchCfg
from envlab.envs.mujoco_sensor import TYPES, MujocoSensorCfg
from envlab.envs.terms import observation
from tests.envs import hopper
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, terms

SCENE = """
<mujoco>
  <option timestep="0.001" gravity="0 0 -10"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body name="base" pos="0 0 1">
      <joint name="turn" axis="0 0 1" limited="true" range="-900 900"/>
      <geom name="table" type="cylinder" size="0.1 0.01" mass="1000" contype="0"/>
      <site name="rim" pos="0.4 0 0"/><camera name="eye"/>
      <body name="arm" pos="0.5 0 0">
        <joint name="lift" axis="0 1 0" stiffness="1e4" damping="100"/>
        <geom name="arm" size="0.05" mass="0.5" pos="0.1 0 0" contype="0"/>
        <body name="knob"><joint name="ball" type="ball" damping="1"/>
          <geom name="knob" size="0.01" mass="1e-3" contype="0"/></body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="cord" range="-1 1"><joint joint="turn" coef="1"/></fixed></tendon>
  <actuator><motor name="motor" joint="turn"/></actuator>
</mujoco>
"""
SPEED = 2.0


@pytest.fixture
def make(tmp_path):
    """Return a maker of environments whose turntable turns at 2 rad/s, its arm at rest on it."""
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)

    def made(num_envs: int = 1, **fields: Any) -> ManagerEnv:
        env = hopper.make_env(
            num_envs,
            sim={"data_fields": ("xpos", "xquat"), "dt": 0.001},
            actions=terms(force=mdp.JointEffortActionCfg(joint_names="turn")),
            scene=SceneCfg(num_envs=num_envs, model=str(path)),
            **fields,
        )
        qvel = torch.zeros(num_envs, env.sim.model.nv)
        qvel[:, 0] = SPEED
        qpos = env.default_qpos_rows.clone()
        env.sim.reset(torch.ones(num_envs, dtype=torch.bool), qpos, qvel)
        for _ in range(300):
            env.step(torch.zeros(num_envs, 1))
        return env

    return made


def get(env: ManagerEnv, name: str) -> Any:
    return env.sensor_manager.get_term(name)


def test_an_imu_turned_on_its_body_measures_in_its_own_frame(make):
    """It stands 0.4 m out, turned by 90° about x: its y is the world's z, its z the world's -y."""
    turned = mdp.OffsetCfg(pos=(0.4, 0.0, 0.0), rot=(math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0))
    imu_terms = (mdp.imu_ang_vel, mdp.imu_lin_acc, mdp.imu_orientation, mdp.imu_projected_gravity)
    env = make(
        sensors=terms(imu=ImuCfg(body_name="base", offset=turned)),
        observations=terms(
            policy=group(**{term.__name__: observation(term) for term in imu_terms})
        ),
    )
    imu = get(env, "imu")
    assert imu.ang_vel_b[0].tolist() == pytest.approx([0, SPEED, 0], abs=1e-3)
    assert imu.lin_acc_b[0].tolist() == pytest.approx([-1.6, 10.0, 0.0], abs=2e-3)
    assert imu.lin_vel_b[0].tolist() == pytest.approx([0, 0, -SPEED * 0.4], abs=1e-3)
    assert imu.projected_gravity_b[0].tolist() == pytest.approx([0, -1, 0], abs=1e-5)
    assert imu.ang_acc_b[0].abs().max() < 0.02
    angle = float(env.sim.data.qpos[0, 0])
    pos = [0.4 * math.cos(angle), 0.4 * math.sin(angle), 1.0]
    assert imu.pos_w[0].tolist() == pytest.approx(pos, abs=1e-5)
    together = (imu.ang_vel_b, imu.lin_acc_b, imu.quat_w, imu.projected_gravity_b)
    assert torch.equal(env.obs_buf["policy"], torch.cat(together, dim=1))
    before = env.sim.data.qvel[0, 0].item()
    env.step(torch.full((1, 1), 100.0))  # N m about the vertical
    gained = (env.sim.data.qvel[0, 0].item() - before) / env.step_dt
    assert gained > 5.0
    assert imu.ang_acc_b[0].tolist() == pytest.approx([0, gained, 0], rel=0.05, abs=0.1)


def test_a_joint_carries_the_weight_its_moment_and_the_pull_of_the_circle(make):
    """The arm weighs 0.5 kg with its centre at 0.1 m, 0.6 m from the axis."""
    part = SceneEntityCfg("wrench", body_names="arm")
    env = make(
        sensors=terms(wrench=JointWrenchCfg(body_names=["arm", "base"])),
        observations=terms(
            policy=group(
                all=observation(mdp.body_incoming_wrench, asset_cfg=SceneEntityCfg("wrench")),
                arm=observation(mdp.body_incoming_wrench, asset_cfg=part),
            )
        ),
    )
    wrench = get(env, "wrench")
    assert wrench.body_names == ["base", "arm"]
    arm = wrench.wrenches_b[0, 1].tolist()
    assert arm[:3] == pytest.approx([-0.5 * SPEED**2 * 0.6, 0.0, 0.501 * 10], abs=2e-2)
    assert arm[3:] == pytest.approx([0.0, -0.5 * 10 * 0.1, 0.0], abs=1e-2)
    assert wrench.wrenches_b[0, 0, 2].item() == pytest.approx(1000.501 * 10, rel=1e-4)
    assert torch.equal(env.obs_buf["policy"][:, 12:], -wrench.wrenches_b[:, 1])


def test_frames_are_where_mujoco_has_them(make):
    around = (0.5, 0.5, -0.5, 0.5)
    env = make(
        2,
        sensors=terms(
            frames=FrameTransformerCfg(
                body_name="arm",
                source_frame_offset=mdp.OffsetCfg(pos=(0.1, 0.2, 0.3), rot=around),
                target_frames=[
                    FrameCfg(body_name="base"),
                    FrameCfg(
                        body_name="knob", name="tip", offset=mdp.OffsetCfg(pos=(0.0, 0.0, 0.1))
                    ),
                ],
            )
        ),
        observations=terms(
            policy=group(
                pos=observation(mdp.frame_positions, sensor_cfg=SceneEntityCfg("frames")),
                quat=observation(mdp.frame_orientations, sensor_cfg=SceneEntityCfg("frames")),
            )
        ),
    )
    frames = get(env, "frames")
    assert frames.target_frame_names == ["base", "tip"]
    assert torch.equal(frames.target_pos_w[:, 0], env.sim.data.xpos[:, 1])
    assert torch.equal(frames.target_quat_w[:, 0], env.sim.data.xquat[:, 1])
    data = env.sim.data_of(1)
    mujoco.mj_kinematics(env.sim.model, data)
    source = np.zeros(9)
    mujoco.mju_quat2Mat(source, np.array(around))
    arm = data.body("arm").xmat.reshape(3, 3)
    rotation, origin = arm @ source.reshape(3, 3), data.body("arm").xpos + arm @ [0.1, 0.2, 0.3]
    tip = data.body("knob").xpos + data.body("knob").xmat.reshape(3, 3) @ [0.0, 0.0, 0.1]
    expected = rotation.T @ (tip - origin)
    assert frames.source_pos_w[1].tolist() == pytest.approx(origin, abs=1e-5)
    assert frames.target_pos_source[1, 1].tolist() == pytest.approx(expected, abs=1e-5)
    seen = rotation.T @ data.body("base").xmat.reshape(3, 3)
    found = np.zeros(9)
    mujoco.mju_quat2Mat(found, frames.target_quat_source[1, 0].double().numpy())
    assert found.reshape(3, 3) == pytest.approx(seen, abs=1e-5)
    pos, quat = frames.target_pos_source.flatten(1), frames.target_quat_source.flatten(1)
    assert torch.equal(env.obs_buf["policy"], torch.cat((pos, quat), dim=1))


OBJECTS = {
    "site": "rim",
    "joint": "turn",
    "tendon": "cord",
    "actuator": "motor",
    "xbody": "arm",
    "body": "arm",
    "geom": "knob",
    "camera": "eye",
}


def test_every_type_can_be_added(make):
    sensors = {}
    for name, one in TYPES.items():
        settings: dict[str, Any] = {}
        if one.kinds:
            settings[one.kinds[0]] = "ball" if name.startswith("ball") else OBJECTS[one.kinds[0]]
        if one.reference_kinds:
            kind = one.reference_kinds[0]
            settings["reference"] = "floor" if kind == "geom" else OBJECTS[kind]
            if kind == "xbody":
                settings["reference"] = "base"
        sensors[name] = MujocoSensorCfg(type=name, cutoff=0.0, **settings)
    sensors["distance"].cutoff = 10.0
    env = make(sensors=terms(**sensors))
    data = {name: get(env, name).data[0] for name in sensors}
    assert data["clock"].item() > 0.0
    assert data["distance"].item() == pytest.approx(0.99, abs=1e-3)
    assert data["framepos"].tolist() == pytest.approx([0.5, 0, 0], abs=1e-5)
    assert data["actuatorvel"].item() == pytest.approx(SPEED, abs=1e-3)
    several = make(sensors=terms(pos=MujocoSensorCfg(type="jointpos", joint="turn|lift")))
    assert get(several, "pos").sensor_names == ["jointpos_turn", "jointpos_lift"]
    assert torch.equal(get(several, "pos").data, several.sim.data.qpos[:, :2])


def test_objects_and_types_that_do_not_exist_are_refused(make):
    def of(cfg: Any, **fields: Any) -> Any:
        return lambda: make(sensors=terms(one=cfg), **fields)

    def added(**settings: Any) -> Any:
        return of(MujocoSensorCfg(**settings))

    two = {"a": MujocoSensorCfg(type="gyro", site="rim"), "b": MujocoSensorCfg(type="force")}
    two["b"].site, two["b"].name = "rim", "gyro"
    arm = observation(mdp.body_incoming_wrench, asset_cfg=SceneEntityCfg("one", body_names="ram"))
    assert_refused(
        {
            "has the type 'gyros', .* Did you mean gyro": added(type="gyros", site="rim"),
            "gyro sensor names the site 'rime', but the model has rim. Did you mean rim": added(
                type="gyro", site="rime"
            ),
            "gyro sensor is given joint, but needs one of site": added(type="gyro", joint="turn"),
            "gyro sensor is given nothing": added(type="gyro"),
            "clock sensor is given site, but needs none": added(type="clock", site="rim"),
            "distance sensor needs a reference: a geom": added(type="distance", geom="arm"),
            "reference 'base', but can have one of .none": added(
                type="gyro", site="rim", reference="base"
            ),
            "is the xbody 'bas', .*Did you mean base": added(
                type="framepos", xbody="arm", reference="bas"
            ),
            "adds the MuJoCo sensor 'gyro_rim', but": lambda: make(sensors=terms(**two)),
            "IMU is on the body 'bas', .*Did you mean base": of(ImuCfg(body_name="bas")),
            "wrench is that of the body 'amr', .*Did you mean arm": of(
                JointWrenchCfg(body_names="amr")
            ),
            "for the wrench of the body 'ram'": of(
                JointWrenchCfg(), observations=terms(policy=group(arm=arm))
            ),
            "has no target_frames": of(FrameTransformerCfg()),
            "names the body 'nob', .*Did you mean knob": of(
                FrameTransformerCfg(body_name="arm", target_frames=[FrameCfg(body_name="nob")])
            ),
        }
    )
