"""Mjlab-Tracking-Flat-Unitree-G1: mjlab's numbers, and a clip that is played back."""

from __future__ import annotations

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
