"""Walking robots of several families: motors, penalties, scans and the edge of the ground.

test_fidelity.py holds the tasks' numbers, test_robots.py those of the robots.
"""

from __future__ import annotations

from functools import partial

import mujoco
import pytest
import torch

from envlab import registry
from envlab.envs import SceneEntityCfg, VectorEnv
from envlab.envs.entities import resolve_entity
from envlab.envs.scene import load_model
from tests.tasks import making

GO2, ROUGH_GO2 = (f"Isaac-Velocity-{ground}-Unitree-Go2-v0" for ground in ("Flat", "Rough"))
FLAT_G1, ROUGH_G1 = (f"Isaac-Velocity-{ground}-G1-v0" for ground in ("Flat", "Rough"))
MJLAB = [f"Mjlab-Velocity-Rough-Unitree-{robot}" for robot in ("G1", "Go1")]
LEGS = ("FL", "FR", "RL", "RR")
FINGERS = ("zero", "one", "two", "three", "four", "five", "six")
GENERATOR = "env.scene.terrain.terrain_generator"
make = partial(making.make, num_envs=2)


def cfg_of(task_id: str):
    return registry.load_env_cfg(registry.get_task(task_id))


def stand(env: VectorEnv, steps: int) -> None:
    """Step with action 0."""
    for _ in range(steps):
        env.step(torch.zeros_like(env.actions))


def test_go2s_motors_are_isaac_labs():
    """25 N m/rad and 0.5 N m s/rad, within 23.5 N m at rest, none at 30 rad/s."""
    model = load_model(cfg_of(GO2).scene.model)
    data = mujoco.MjData(model)
    for error, velocity, torque in (
        *((0.2, 0.0, 5.0), (0.2, 4.0, 3.0), (3.0, 0.0, 23.5), (3.0, 10.0, 23.5 * 2 / 3)),
        *((3.0, 30.0, 0.0), (-3.0, 10.0, -23.5), (-3.0, -15.0, -23.5 / 2)),
    ):
        data.ctrl[:] = data.qpos[7:] + error
        data.qvel[6:] = velocity
        mujoco.mj_forward(model, data)
        found = data.actuator_force.tolist()
        assert found == pytest.approx([torque] * 12, abs=1e-6), (error, velocity)


def test_go2_stands_still_with_action_zero():
    env = make(GO2, "env.events.add_base_mass=null", "env.events.physics_material=null")
    stand(env, 150)
    before = env.sim.data.qpos.clone()
    stand(env, 250)
    drift = (env.sim.data.qpos - before)[:, :2].norm(dim=1)
    assert drift.max() < 0.02
    assert before[:, 2].tolist() == pytest.approx([0.283] * 2, abs=0.005)
    assert env.sim.data.qpos[:, 2].tolist() == pytest.approx(before[:, 2].tolist(), abs=0.003)
    feet = env.sensor_manager.get_term("contact_forces")
    touching = [n for n, c in zip(feet.body_names, feet.in_contact[0], strict=True) if c]
    assert touching == [f"{leg}_foot" for leg in LEGS]
    forces = feet.net_forces_w[0].sum(dim=0)
    assert forces.tolist() == pytest.approx([0.0, 0.0, 15.017 * 9.81], abs=1.0)


@pytest.mark.parametrize("task_id", [GO2, FLAT_G1])
def test_accelerations_are_differences_of_velocities_as_in_isaac_lab(task_id):
    """Plain MuJoCo repeats the control step; Isaac Lab divides differences by the physics step."""
    env = make(task_id, "env.events.add_base_mass=null", "env.events.physics_material=null")
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        env.step(torch.randn(env.actions.shape, generator=generator))
    term, model = env.cfg.rewards.dof_acc_l2, env.sim.model
    joints = resolve_entity(
        term.params.get("asset_cfg", SceneEntityCfg("robot")), model, env.device
    )
    data = env.sim.data_of(0)
    env.step(torch.randn(env.actions.shape, generator=generator))
    data.ctrl[:] = env.sim.ctrl[0]
    velocities = []
    for _ in range(4):
        mujoco.mj_step(model, data)
        velocities.append(data.qvel[joints.qvel_ids].copy())
    assert velocities[-1].tolist() == pytest.approx(
        env.sim.data.qvel[0, joints.qvel_ids].tolist(), abs=1e-3
    )
    expected = (((velocities[-1] - velocities[-2]) / 0.005) ** 2).sum()
    index = env.reward_manager.active_terms.index("dof_acc_l2")
    value = env.reward_manager.step_values[index, 0].item() / (term.weight * 0.02)
    assert value == pytest.approx(expected, rel=0.01)


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


def test_scan_is_clipped_and_noisy_in_training():
    env = make(ROUGH_GO2, num_envs=8)
    seen = env.obs_buf["policy"][:, 48:]
    plain = env._get_observations()["policy"][:, 48:]
    assert seen.shape == (8, 187)
    assert plain.abs().max() <= 1.0
    assert seen.abs().max() <= 1.0
    noise = (seen - plain)[plain.abs() < 0.85].abs()
    assert 0.09 < noise.max() <= 0.1 + 1e-6
    assert 0.04 < noise.mean() < 0.06


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
    env.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    _, _, terminated, truncated, _ = env.step(torch.zeros_like(env.actions))
    assert truncated.tolist() == [False, True]
    assert not terminated.any()
