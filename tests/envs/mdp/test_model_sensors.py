"""Readings of MuJoCo's sensors, by what they are mounted on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.errors import ConfigurationError
from tests.envs.hopper import ARM_MASS, GRAVITY, LEFT, MODEL, ROLLED, make_env, place
from tests.envs.sliders import select

SENSORS = """
<framequat name="quat" objtype="site" objname="imu"/><gyro site="imu"/>
<accelerometer site="imu"/><force site="wrist"/><torque site="wrist"/>
<framelinacc objtype="body" objname="block"/><framelinacc objtype="body" objname="arm"/>
<framelinacc objtype="xbody" objname="arm"/>
<framezaxis name="up" objtype="body" objname="world" reftype="site" refname="imu"/></sensor>"""


def model_with_sensors(folder: Path) -> Path:
    """Write the hopper with an IMU that is turned to the left, and a wrist."""
    text = Path(MODEL).read_text().replace("</sensor>", SENSORS)
    root, quat = '<freejoint name="root"/>', " ".join(map(str, LEFT))
    text = text.replace(root, f'{root}<site name="imu" quat="{quat}"/>')
    arm = '<geom name="arm"'
    path = folder / "hopper.xml"
    path.write_text(text.replace(arm, f'<site name="wrist"/>{arm}'))
    return path


@pytest.fixture
def env(tmp_path: Path) -> ManagerEnv:
    return make_env(scene=SceneCfg(num_envs=1, model=str(model_with_sensors(tmp_path))))


def test_an_imu_and_what_it_knows_of_gravity(env: ManagerEnv):
    imu, half = select(env, site_names="imu"), 2**-0.5
    place(env, height=5.0, ang_vel=(1.0, 2.0, 3.0))
    for value, expected in (
        (mdp.imu_orientation(env, imu), LEFT),
        (mdp.imu_ang_vel(env, imu), [2.0, -1.0, 3.0]),  # the site's x is the block's y
        (mdp.imu_projected_gravity(env, imu), [0.0, 0.0, -1.0]),
        (mdp.projected_gravity_from_sensor(env, "up"), [0.0, 0.0, -1.0]),
        (mdp.builtin_sensor(env, "quat"), LEFT),
    ):
        assert value[0].tolist() == pytest.approx(expected, abs=1e-5)
    place(env, height=5.0, quat=ROLLED)  # the block's y is up, the site's x
    assert mdp.imu_orientation(env, imu)[0].tolist() == pytest.approx(
        [half * half, half * half, -half * half, half * half], abs=1e-5
    )
    for value in (
        mdp.imu_projected_gravity(env, imu),
        mdp.projected_gravity_from_sensor(env, "up"),
    ):
        assert value[0].tolist() == pytest.approx([-1.0, 0.0, 0.0], abs=1e-5)


def test_accelerations_and_wrenches_at_rest_and_in_a_fall(env: ManagerEnv):
    block, arm = select(env, body_names="block"), select(env, body_names="arm")
    imu, both = select(env, site_names="imu"), select(env, body_names=["block", "arm"])
    place(env, height=5.0)  # everything falls, so nothing pulls on anything
    assert mdp.imu_lin_acc(env, imu)[0].tolist() == pytest.approx([0.0] * 3, abs=1e-4)
    assert mdp.body_lin_acc_l2(env, both).tolist() == pytest.approx([2.0 * GRAVITY], rel=1e-4)
    assert mdp.body_incoming_wrench(env, arm)[0].tolist() == pytest.approx([0.0] * 6, abs=1e-4)
    place(env, height=0.1)
    for _ in range(400):  # it comes to rest on the floor
        env.step(torch.zeros(1, 1))
    assert mdp.imu_lin_acc(env, imu)[0].tolist() == pytest.approx([0.0, 0.0, GRAVITY], abs=0.05)
    assert mdp.body_lin_acc_l2(env, block).tolist() == pytest.approx([0.0], abs=0.05)
    force, torque = mdp.body_incoming_wrench(env, arm)[0].split(3)
    # The arm, 0.4 m long, has sunk, and turns its own frame by that angle.
    assert force.norm().item() == pytest.approx(ARM_MASS * GRAVITY, rel=1e-2)
    assert force[2].item() > 0.0
    level = 0.4 * env.sim.data.qpos[0, 7].cos().item()
    assert torque[1].item() == pytest.approx(-ARM_MASS * GRAVITY * level, rel=2e-2)


def test_what_is_not_mounted_is_asked_for(env: ManagerEnv):
    for call, message in (
        (lambda: mdp.imu_ang_vel(env, select(env, site_names="wrist")), '<gyro site="wrist"/>'),
        (
            lambda: mdp.imu_orientation(env, select(env, site_names="wrist")),
            '<framequat objtype="site" objname="wrist"/>',
        ),
        (
            lambda: mdp.body_incoming_wrench(env, select(env, body_names="block")),
            "The body 'block' has no <force> sensor. Add <force site=\"...\"/>",
        ),
        (lambda: mdp.builtin_sensor(env, "upp"), "no sensor 'upp'.* Did you mean"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            call()


def test_sensors_are_found_by_their_sites_in_any_order(env: ManagerEnv):
    place(env, ang_vel=(1.0, 2.0, 3.0))
    first = mdp.imu_ang_vel(env, select(env, site_names="imu"))
    for _ in range(3):  # another entity of the same site
        assert mdp.imu_ang_vel(env, select(env, site_names=["imu"])).equal(first)
