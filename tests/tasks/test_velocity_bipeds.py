"""H1 and G1 on flat and rough ground: Unitree's robots, and the scan around the torso."""

from __future__ import annotations

from functools import partial

import mujoco
import pytest
import torch

from envlab import registry
from envlab.envs import VectorEnv
from envlab.envs.entities import resolve_entity
from envlab.envs.scene import load_model
from tests.tasks import making

FLAT_G1, ROUGH_G1 = "Isaac-Velocity-Flat-G1-v0", "Isaac-Velocity-Rough-G1-v0"
FLAT_H1, ROUGH_H1 = "Isaac-Velocity-Flat-H1-v0", "Isaac-Velocity-Rough-H1-v0"
FINGERS = ("zero", "one", "two", "three", "four", "five", "six")

# Observations and actions; 37 joints as in G1_MINIMAL_CFG: 12 + 3 * 37, and 187 of the scan.


def cfg_of(task_id: str):
    return registry.load_env_cfg(registry.get_task(task_id))


make = partial(making.make, num_envs=2)


@pytest.fixture(scope="module")
def rough_h1() -> VectorEnv:
    return make(ROUGH_H1, num_envs=20)  # one per column: all kinds of ground


# The reference tables -----------------------------------------------------------------------------


def test_g1s_penalties_are_about_isaac_labs_joints():
    for task_id, torques in (
        (ROUGH_G1, "hip_pitch hip_roll hip_yaw knee ankle_pitch ankle_roll"),
        (FLAT_G1, "hip_pitch hip_roll hip_yaw knee"),
    ):
        cfg = cfg_of(task_id)
        model = load_model(cfg.scene.model)
        selected = {
            name: resolve_entity(term.params["asset_cfg"], model, torch.device("cpu")).joint_names
            for name, term in vars(cfg.rewards).items()
            if name.startswith(("dof", "joint"))
        }
        assert selected["dof_torques_l2"] == both(torques)
        assert selected["dof_acc_l2"] == both("hip_pitch hip_roll hip_yaw knee")
        assert selected["dof_pos_limits"] == both("ankle_pitch ankle_roll")
        assert selected["joint_deviation_hip"] == both("hip_roll hip_yaw")
        arm = "shoulder_pitch shoulder_roll shoulder_yaw elbow_pitch elbow_roll"
        assert selected["joint_deviation_arms"] == both(arm)
        assert selected["joint_deviation_fingers"] == both(" ".join(FINGERS))
        assert selected["joint_deviation_torso"] == ["torso_joint"]


def both(parts: str) -> list[str]:
    """Return the joints of the left side, then of the right."""
    return [f"{side}_{part}_joint" for side in ("left", "right") for part in parts.split()]


# The robot ----------------------------------------------------------------------------------------


def test_g1_has_unitrees_figures_and_isaac_labs_gains():
    model = load_model(cfg_of(FLAT_G1).scene.model)
    assert model.body("pelvis").subtreemass[0] == pytest.approx(32.239, abs=1e-3)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    assert data.qpos[:7].tolist() == [0.0, 0.0, 0.74, 1.0, 0.0, 0.0, 0.0]
    mujoco.mj_forward(model, data)
    soles = [data.geom(f"{side}_foot_{end}_in").xpos[2] for side in ("left", "right")
             for end in ("heel", "toe")]  # fmt: skip
    assert soles == pytest.approx([0.033] * 4, abs=2e-3)  # its soles are level, and above ground
    # unitree.py: G1_CFG. Stiffness, damping, effort limit and armature of each kind of joint.
    expected = {
        "left_hip_yaw_joint": (150.0, 5.0, 300.0, 0.01),
        "right_knee_joint": (200.0, 5.0, 300.0, 0.01),
        "torso_joint": (200.0, 5.0, 300.0, 0.01),
        "left_ankle_roll_joint": (20.0, 2.0, 20.0, 0.01),
        "right_elbow_roll_joint": (40.0, 10.0, 300.0, 0.01),
        "left_six_joint": (40.0, 10.0, 300.0, 0.001),
    }
    for name, (stiffness, damping, effort, armature) in expected.items():
        actuator = model.actuator(name)
        assert (actuator.gainprm[0], -actuator.biasprm[2]) == (stiffness, damping)
        assert actuator.forcerange.tolist() == [-effort, effort]
        assert model.dof_armature[model.joint(name).dofadr[0]] == armature
    default = {
        **dict.fromkeys(both("hip_pitch"), -0.2),
        **dict.fromkeys(both("knee"), 0.42),
        **dict.fromkeys(both("ankle_pitch"), -0.23),
        **dict.fromkeys(both("shoulder_pitch"), 0.35),
        **dict.fromkeys(both("elbow_pitch"), 0.87),
    }
    for part, angle in (("shoulder_roll", 0.16), ("one", 1.0), ("two", 0.52)):
        default |= dict(zip(both(part), (angle, -angle), strict=True))
    names = [model.joint(joint).name for joint in range(1, model.njnt)]
    home = dict(zip(names, model.key("home").qpos[7:].tolist(), strict=True))
    assert {name: angle for name, angle in home.items() if angle} == default


@pytest.mark.parametrize(
    ("task_id", "steps", "feet"), [(FLAT_G1, 12, "ankle_roll_link"), (FLAT_H1, 20, "ankle_link")]
)
def test_bipeds_land_on_their_feet_and_fall_without_a_policy(task_id, steps, feet):
    env = make(task_id)
    for _ in range(steps):
        env.step(torch.zeros_like(env.actions))
    sensor = env.sensor_manager.get_term("contact_forces")
    touching = [n for n, c in zip(sensor.body_names, sensor.in_contact[0], strict=True) if c]
    assert touching == [f"left_{feet}", f"right_{feet}"]
    ended = torch.zeros(2, dtype=torch.bool)
    for _ in range(120):
        _, reward, terminated, *_ = env.step(torch.zeros_like(env.actions))
        assert (reward[terminated] < -3.9).all()  # -200 per second, for 0.02 s
        ended |= terminated
    assert ended.all()


# Rough ground -------------------------------------------------------------------------------------


def test_bipeds_stand_on_every_kind_of_ground(rough_h1):
    env = rough_h1
    for _ in range(20):
        _, _, terminated, _, _ = env.step(torch.zeros(20, 19))
        assert not terminated.any()
    base = env.sim.data.qpos[:, :3]
    above = base[:, 2] - env.terrain.heights_at(base[:, 0], base[:, 1])
    assert above.min() > 0.8
    assert above.max() < 1.1


def test_scan_turns_with_the_torso_and_not_with_the_pelvis(rough_h1):
    env = rough_h1
    qpos = env.default_qpos.repeat(20, 1)
    qpos[:, :3] += env.env_origins
    qpos[:, 0] += 3.2  # over the edge of the tile's platform
    torso = int(env.sim.model.joint("torso").qposadr[0])
    everyone = torch.ones(20, dtype=torch.bool)

    def scan() -> torch.Tensor:
        env.sim.reset(everyone, qpos)
        return env._get_observations()["policy"][:, 69:]

    straight = scan()
    assert straight.abs().amax(dim=1).min() > 0.0
    qpos[:, torso] = 0.5  # rad
    turned = scan()
    half = torch.tensor(0.25)
    qpos[:, 3:7] = torch.stack((half.cos(), half * 0.0, half * 0.0, -half.sin()))  # yaw -0.5 rad
    back = scan()
    assert torch.allclose(back, straight, atol=1e-4)
    assert ((turned - straight).abs().amax(dim=1) > 0.01).sum() > 10
