"""How far actions go."""

from __future__ import annotations

import pytest
import torch

from envlab.config import merge
from envlab.errors import ConfigurationError
from envlab.fast_sac.cfg import FastSacCfg
from envlab.fast_sac.checks import action_range
from tests.small_runs import env_of

GO2 = "Isaac-Velocity-Flat-Unitree-Go2-v0"
CFG = merge(FastSacCfg(), {"joint_limits": True}, "agent")


def test_with_joint_limits_the_largest_action_takes_a_joint_to_its_farther_limit():
    env = env_of(GO2, num_envs=2)
    half_width, middle = action_range(env, CFG)
    # A hip's default is 0.1 rad between -1.0472 and 1.0472, and an action is 0.25 rad.
    assert float(half_width[0]) == pytest.approx((1.0472 + 0.1) / 0.25)
    assert not middle.any()
    model, farthest = env.sim.model, torch.zeros(12)
    for sign in (-1.0, 1.0):
        env.action_manager.process_action(sign * half_width.expand(2, -1))
        for number in range(12):
            low, high = model.jnt_range[model.actuator_trnid[number, 0]]
            control = float(env.sim.ctrl[0, number])
            beyond = max(control - high, low - control)
            farthest[number] = max(farthest[number], 1.0 if abs(beyond) < 1e-4 else 0.0)
    assert farthest.tolist() == [1.0] * 12
    half_width, _ = action_range(env, merge(FastSacCfg(), {"action_limit": 3.0}, "agent"))
    assert half_width.tolist() == [3.0] * 12  # without them, the same for all
    env.close()


def test_where_actions_are_no_targets_of_joints_it_is_refused():
    for task_id, words in [
        ("Isaac-Ant-v0", "the action 'joint_effort' is not a target of joints"),
        ("Isaac-Cartpole-Direct-v0", "the task's actions are not those of a ManagerEnv"),
    ]:
        env = env_of(task_id)
        with pytest.raises(ConfigurationError, match=words):
            action_range(env, CFG)
        env.close()
