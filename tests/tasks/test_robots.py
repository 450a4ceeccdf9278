"""Robots have the figures of robots.yaml, which says where each comes from; and they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from envlab.config import load_yaml
from envlab.envs.scene import build_model, load_model
from envlab.registry import get_task, load_env_cfg

COMPOSED = {
    "leap_cube": "Envlab-Repose-Cube-Leap-Direct-v0",
    "shadow_cube": "Isaac-Repose-Cube-Shadow-Direct-v0",
}
"""Robots with an object, by the task that composes them."""
TABLE = load_yaml(Path(__file__).with_name("robots.yaml"))["robots"]


def model_of(robot: str) -> mujoco.MjModel:
    if robot in COMPOSED:
        return build_model(load_env_cfg(get_task(COMPOSED[robot])).scene)
    return load_model(f"envlab_assets:robots/{robot}.xml")


@pytest.mark.parametrize("robot", TABLE)
def test_a_robot_has_the_figures_of_its_source(robot):
    model, table = model_of(robot), TABLE[robot]
    if "total_mass" in table:
        assert model.body(1).subtreemass[0] == pytest.approx(table["total_mass"], abs=1e-3)
    if bodies := table.get("bodies"):
        heavy = {model.body(i).name for i in range(1, model.nbody) if model.body_mass[i] > 0.0}
        assert heavy == set(bodies)
        for name, figures in bodies.items():
            body = model.body(name)
            assert body.mass[0] == pytest.approx(figures["mass"]), name
            assert body.ipos.tolist() == pytest.approx(figures["com"], abs=1e-7), name
            assert body.inertia.tolist() == pytest.approx(figures["inertia"], rel=1e-4), name
            if "pos" in figures:
                assert body.pos.tolist() == pytest.approx(figures["pos"], abs=1e-7), name
        names = [model.joint(i).name for i in range(model.njnt) if model.jnt_type[i] != 0]
        assert names == list(table["joints"])
        home = model.key("home")
        for name in names:
            motor, column = model.actuator(name).id, model.joint(name).qposadr[0]
            assert home.ctrl[motor] == home.qpos[column], name
    for name, figures in table.get("capsules", {}).items():
        geom = model.geom(name)
        half = np.array(figures["fromto"]).reshape(2, 3)
        assert geom.pos == pytest.approx(half.mean(axis=0), abs=1e-6), name
        axis = rotation_of(geom.quat)[:, 2]
        assert np.abs(axis @ (half[1] - half[0])) == pytest.approx(2.0 * geom.size[1]), name
        assert geom.size[1] == pytest.approx(0.5 * np.linalg.norm(half[1] - half[0])), name
        found = (geom.size[0], geom.condim[0], geom.priority[0], geom.friction[0])
        wanted = [figures[what] for what in ("radius", "condim", "priority", "friction")]
        assert found == pytest.approx(wanted), name
    for name, figures in table.get("joints", table.get("some_joints")).items():
        found = figures_of(model, name)
        for what, value in figures.items():
            assert found[what] == pytest.approx(value, rel=1e-5, abs=1e-7), (name, what)


def test_robots_stand_on_their_feet_alone():
    for robot, (height, duration) in HEIGHTS.items():
        model = model_of(robot)
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        for _ in range(round(duration / model.opt.timestep)):
            mujoco.mj_step(model, data)
        assert data.qpos[2] == pytest.approx(height, abs=0.005), robot
        touching = {model.body(model.geom_bodyid[c.geom[1]]).name for c in data.contact}
        assert len(touching) == (2 if robot == "t1" else 4), robot
        assert all("foot" in name.lower() for name in touching), robot
        tilt = data.xmat[1].reshape(3, 3)[2, 2]
        assert tilt > 0.997, robot


def rotation_of(quat: np.ndarray) -> np.ndarray:
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, quat)
    return rotation.reshape(3, 3)


def figures_of(model: mujoco.MjModel, name: str) -> dict[str, Any]:
    """Return a joint's figures under the names of the table; gains mean something of PD alone."""
    joint, motor = model.joint(name), model.actuator(name)
    home = model.key("home")
    return {
        "range": joint.range.tolist(),
        "armature": float(model.dof_armature[joint.dofadr[0]]),
        "passive_damping": float(model.dof_damping[joint.dofadr[0]]),
        "friction": float(model.dof_frictionloss[joint.dofadr[0]]),
        "stiffness": float(motor.gainprm[0]),
        "damping": float(-motor.biasprm[2]),
        "effort": float(motor.forcerange[1]),
        "home": float(home.qpos[joint.qposadr[0]]),
    }


# Stiffness, damping, effort limit, effort at standstill and speed without effort of DC motors.
DC_MOTORS = {
    # Of Isaac Lab's UNITREE_GO2_CFG.
    "go2": (25.0, 0.5, 23.5, 23.5, 30.0),
    # The gains of walk-these-ways, which GO1_ACTUATOR_CFG has its network from, and its limits.
    "go1": (20.0, 0.5, 23.7, 23.7, 30.0),
    # The gains of legged_gym's ANYmal C; the limits of ANYDRIVE_3_LSTM_ACTUATOR_CFG.
    "anymal_d": (80.0, 2.0, 80.0, 120.0, 7.5),
    "anymal_c": (80.0, 2.0, 80.0, 120.0, 7.5),
    "anymal_b": (80.0, 2.0, 80.0, 120.0, 7.5),
}


@pytest.mark.parametrize("robot", DC_MOTORS)
def test_a_dc_motor_is_pd_control_within_its_torque_speed_line(robot):
    stiffness, damping, limit, at_rest, fastest = DC_MOTORS[robot]
    model = model_of(robot)
    data = mujoco.MjData(model)
    for error, velocity in (
        *((0.2, 0.0), (0.2, 2.0), (9.0, 0.0), (9.0, 4.0), (-9.0, 4.0), (-9.0, -5.0)),
    ):
        data.qpos[:] = model.key("home").qpos
        data.ctrl[:] = data.qpos[7:] + error
        data.qvel[6:] = velocity
        mujoco.mj_forward(model, data)
        torque = stiffness * error - damping * velocity
        line = at_rest * (np.array([-1.0, 1.0]) - velocity / fastest)
        torque = np.clip(np.clip(torque, *line), -limit, limit)
        found = data.actuator_force.tolist()
        assert found == pytest.approx([torque] * 12, abs=1e-5), (error, velocity)


# Heights of the roots after the robots have stood for a time, in m and s. The gains of Spot and T1
# do not hold them for longer without a policy.
HEIGHTS = {
    "go2": (0.283, 4.0),
    "go1": (0.280, 4.0),
    "go1_mjlab": (0.253, 4.0),
    "anymal_d": (0.561, 4.0),
    "anymal_c": (0.526, 4.0),
    "anymal_b": (0.48, 4.0),
    "spot": (0.41, 0.18),
    "t1": (0.654, 0.15),
}
