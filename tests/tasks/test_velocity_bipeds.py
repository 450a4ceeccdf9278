"""H1 and G1 on flat and rough ground: Unitree's robots, and the scan around the torso."""

from __future__ import annotations

from functools import partial

import mujoco
import pytest
import torch

from envlab import registry
from envlab.envs.entities import resolve_entity
from envlab.envs.scene import load_model
from tests.tasks import making

FLAT_G1, ROUGH_G1 = "Isaac-Velocity-Flat-G1-v0", "Isaac-Velocity-Rough-G1-v0"
FINGERS = ("zero", "one", "two", "three", "four", "five", "six")

# Observations and actions; 37 joints as in G1_MINIMAL_CFG: 12 + 3 * 37, and 187 of the scan.


def cfg_of(task_id: str):
    return registry.load_env_cfg(registry.get_task(task_id))


make = partial(making.make, num_envs=2)


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
