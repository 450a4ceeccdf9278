"""H1 and G1 on flat and rough ground: Unitree's robots, and the scan around the torso."""

from __future__ import annotations

from functools import partial

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
