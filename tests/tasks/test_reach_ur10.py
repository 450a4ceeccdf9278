"""The UR10 has the reach that its lengths give it, and goals point down."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs.math import quat_apply
from envlab.envs.scene import load_model


def test_where_the_arm_ends():
    model = load_model("envlab_assets:robots/ur10_reach.xml")
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    # Stretched out: upper arm and forearm; offsets of shoulder, elbow and wrists; heights.
    stretched = [0.612 + 0.5723, 0.220941 - 0.1719 + 0.1149 + 0.0922, 0.1273 - 0.1157]
    assert data.body("ee_link").xpos == pytest.approx(stretched, abs=1e-6)
    data.joint("shoulder_lift_joint").qpos = -math.pi / 2.0  # upright
    mujoco.mj_kinematics(model, data)
    assert data.body("ee_link").xpos[2] == pytest.approx(0.1273 + 0.612 + 0.5723, abs=1e-6)


def test_rewards_of_a_state():
    task = registry.get_task("Isaac-Reach-UR10-v0")
    cfg, context = registry.load_env_cfg(task), DistributedContext(num_threads=1)
    env = task.make(cfg, context=context, num_envs=2, seed=0)
    command = env.command_manager.get_command("ee_pose")
    assert command.shape == (2, 7)
    down = quat_apply(command[:, 3:], torch.tensor([[1.0, 0.0, 0.0]] * 2))
    assert torch.allclose(down, torch.tensor([0.0, 0.0, -1.0]).expand(2, 3), atol=1e-5)
    end = env.sim.model.body("ee_link").id
    command[:, :3] = env.sim.data.xpos[:, end] + torch.tensor([0.0, 0.1, 0.0])
    command[:, 3:] = env.sim.data.xquat[:, end]
    step_s = 2.0 / 60.0
    # 10 cm away, turned as the goal, at rest and without an action.
    expected = (-0.2 * 0.1 + 0.1 * (1.0 - math.tanh(1.0))) * step_s
    assert env._get_rewards().tolist() == pytest.approx([expected] * 2, rel=1e-4, abs=1e-6)
