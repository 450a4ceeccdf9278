"""Walking robots of several families: penalties, scans and the edge of the ground.

test_fidelity.py holds the tasks' numbers, test_robots.py those of the robots.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

from envlab import registry
from envlab.envs.entities import resolve_entity
from envlab.envs.scene import load_model
from tests.tasks import making

ROUGH_GO2 = "Isaac-Velocity-Rough-Unitree-Go2-v0"
FLAT_G1, ROUGH_G1 = (f"Isaac-Velocity-{ground}-G1-v0" for ground in ("Flat", "Rough"))
MJLAB = [f"Mjlab-Velocity-Rough-Unitree-{robot}" for robot in ("G1", "Go1")]
FINGERS = ("zero", "one", "two", "three", "four", "five", "six")
GENERATOR = "env.scene.terrain.terrain_generator"
make = partial(making.make, num_envs=2)


def test_g1s_penalties_are_about_isaac_labs_joints():
    for task_id, torques in (
        (ROUGH_G1, "hip_pitch hip_roll hip_yaw knee ankle_pitch ankle_roll"),
        (FLAT_G1, "hip_pitch hip_roll hip_yaw knee"),
    ):
        cfg = registry.load_env_cfg(registry.get_task(task_id))
        model = load_model(cfg.scene.model)
        selected = {
            name: resolve_entity(term.params["asset_cfg"], model, torch.device("cpu")).joint_names
            for name, term in vars(cfg.rewards).items()
            if term is not None and name.startswith(("dof", "joint"))
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


def test_g1s_fingers_start_within_nine_tenths_of_their_ranges():
    """Isaac Lab 2.3.2's own code resets them so (tests/isaaclab/test_same_mdp.py)."""
    joints = make(FLAT_G1).joint_positions()
    for name, closed in (("left_four", -1.84), ("right_six", 1.84)):
        assert joints[f"{name}_joint"].tolist() == pytest.approx([0.05 * closed] * 2)


def test_overrides_reach_the_ground():
    env = make(ROUGH_GO2, f"{GENERATOR}.num_rows=2", f"{GENERATOR}.sub_terrains.boxes=null")
    assert env.terrain.num_levels == 2
    plane = make(ROUGH_GO2, "env.scene.terrain=null", "env.curriculum.terrain_levels=null")
    assert plane.terrain is None
    plane.step(torch.zeros(2, 12))
    scan = plane._get_observations()["policy"][:, 48:]
    assert torch.allclose(scan, plane.sim.data.qpos[:, 2:3] - 0.5)


@pytest.mark.parametrize("task_id", MJLAB)
def test_robots_land_on_every_kind_of_ground_and_see_it(task_id):
    env = make(task_id, num_envs=10)  # one per column: all kinds
    assert len({int(kind) for kind in env.terrain.terrain_types}) == 10
    assert env.sensor_manager.get_term("feet").heights.min() > -0.05  # none starts deep inside
    # The scan is the height above the ground in units of 5 m; its centre is under the root.
    scan = env._get_observations()["policy"][:, -187:]
    root = env.sim.data.qpos[:, :3]
    under = root[:, 2] - env.terrain.heights_at(root[:, 0], root[:, 1])
    assert torch.allclose(scan[:, 93] * 5.0, under, atol=1e-5)
    assert 0.015 < (env.obs_buf["policy"][:, -187:] - scan).abs().max() <= 0.02 + 1e-6
    touched = torch.zeros(10, dtype=torch.bool)
    for _ in range(12):
        _, _, terminated, _, _ = env.step(torch.zeros_like(env.actions))
        assert not terminated.any()
        touched |= env.sensor_manager.get_term("contact_forces").in_contact.any(dim=1)
    assert touched.all()


def test_who_reaches_the_edge_of_the_ground_starts_again_without_having_failed():
    env = make(MJLAB[0])
    qpos = env.sim.data.qpos.clone()
    # 10 tiles of 8 m and 20 m beyond on each side, less 30 cm.
    qpos[:, 0] = torch.tensor([59.6, 59.8])
    qpos[:, 2] = env.default_qpos[0, 2]
    making.put(env, qpos)
    _, _, terminated, truncated, _ = env.step(torch.zeros_like(env.actions))
    assert truncated.tolist() == [False, True]
    assert not terminated.any()
