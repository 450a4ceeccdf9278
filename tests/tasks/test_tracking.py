"""Mjlab-Tracking-Flat-Unitree-G1: mjlab's numbers, and a clip that is played back."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import ManagerEnv
from envlab.motion import read_clip
from envlab_tasks.tracking.g1.env_cfg import (
    MOTION,
    G1TrackingPlayEnvCfg,
)


@pytest.fixture(scope="module")
def env() -> ManagerEnv:
    return ManagerEnv(G1TrackingPlayEnvCfg(), num_envs=2, seed=0)


def test_a_clip_played_back_earns_five_a_second(env):
    clip = read_clip(MOTION)
    motion = env.command_manager.get_term("motion")
    everyone = torch.ones(2, dtype=torch.bool)
    rewards = ["root_pos", "root_ori", "body_pos", "body_ori", "body_lin_vel", "body_ang_vel"]
    names = [f"motion_{'global_' * name.startswith('root')}{name}" for name in rewards]
    for frame in (1, 60, 100, 150, 199):
        root = torch.as_tensor(clip.body_pos_w[frame, 0], dtype=torch.float32)
        qpos = env.default_qpos.repeat(2, 1)
        qpos[:, :3] = root
        qpos[:, 3:7] = torch.as_tensor(clip.body_quat_w[frame, 0], dtype=torch.float32)
        qpos[:, 7:] = torch.as_tensor(clip.joint_pos[frame], dtype=torch.float32)
        qvel = torch.zeros_like(env.sim.data.qvel)
        qvel[:, :3] = torch.as_tensor(clip.body_lin_vel_w[frame, 0], dtype=torch.float32)
        lean = torch.as_tensor(clip.body_ang_vel_w[frame, 0], dtype=torch.float32)
        qvel[:, 3:6] = lean  # about y, which the lean does not move
        qvel[:, 6:] = torch.as_tensor(clip.joint_vel[frame], dtype=torch.float32)
        motion.frames.fill_(frame)
        env.sim.reset(everyone, qpos, qvel)
        total = torch.zeros(2)
        for name in names:
            term = getattr(env.cfg.rewards, name)
            total += term.weight * term.func(env, **term.params)
        assert total.tolist() == pytest.approx([5.0, 5.0], abs=2e-3), frame
        assert env.cfg.terminations.ee_body_pos is not None
        assert not any(term.any() for term in env.termination_manager.compute())


def test_the_reference_is_the_clips_own(env):
    clip = read_clip(MOTION)
    motion = env.command_manager.get_term("motion")
    motion.frames.fill_(60)
    expected = torch.as_tensor(clip.joint_pos[60], dtype=torch.float32)
    assert torch.equal(motion.joint_pos[0], expected)
    assert motion.command.shape == (2, 58)


def test_actions_reach_a_quarter_of_the_torque_limit(env):
    model = env.sim.model
    settings = env.action_manager.describe()["joint_pos"]
    for name, scale in zip(settings["joint_names"], settings["scale"], strict=True):
        actuator = model.actuator(name)
        expected = 0.25 * actuator.forcerange[1] / actuator.gainprm[0]
        assert scale == pytest.approx(expected, rel=1e-5), name


def test_motors_have_the_gains_of_ten_hertz(env):
    # BeyondMimic: kp = I w^2 and kv = 2 z I w of the armature I, with w of 10 Hz and z = 2.
    model, w = env.sim.model, 20.0 * math.pi
    for index in range(model.nu):
        joint = int(model.actuator_trnid[index, 0])
        armature = model.dof_armature[model.jnt_dofadr[joint]]
        assert model.actuator_gainprm[index, 0] == pytest.approx(armature * w**2, rel=1e-6)
        assert -model.actuator_biasprm[index, 2] == pytest.approx(4.0 * armature * w, rel=1e-6)
    # Rotor inertias times squared gears, of mjlab's g1_constants.py; both are in kg m^2.
    small = 0.139e-4 * (1 + 46 / 18) ** 2 * (1 + 56 / 16) ** 2 + 0.017e-4 * (1 + 56 / 16) ** 2
    small += 0.169e-4
    assert model.dof_armature[model.joint("left_elbow_joint").dofadr[0]] == pytest.approx(small)
    ankle = model.dof_armature[model.joint("left_ankle_roll_joint").dofadr[0]]
    assert ankle == pytest.approx(2.0 * small)


def test_the_robot_is_unitrees(env):
    model = env.sim.model
    assert model.body_mass.sum() == pytest.approx(33.341142, abs=1e-6)
    limits = {
        "left_hip_pitch_joint": (-2.5307, 2.8798, 88.0),
        "right_hip_roll_joint": (-2.9671, 0.5236, 139.0),
        "left_knee_joint": (-0.087267, 2.8798, 139.0),
        "left_ankle_pitch_joint": (-0.87267, 0.5236, 50.0),
        "waist_yaw_joint": (-2.618, 2.618, 88.0),
        "waist_pitch_joint": (-0.52, 0.52, 50.0),
        "right_shoulder_roll_joint": (-2.2515, 1.5882, 25.0),
        "left_elbow_joint": (-1.0472, 2.0944, 25.0),
        "right_wrist_yaw_joint": (-1.61443, 1.61443, 5.0),
    }
    for name, (low, high, torque) in limits.items():
        assert model.joint(name).range.tolist() == [low, high], name
        assert model.actuator(name).forcerange.tolist() == [-torque, torque], name
