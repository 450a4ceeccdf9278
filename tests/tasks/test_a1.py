"""LeggedGym-Flat-A1-v0 does the same as legged_gym (8fa29ac) with its A1."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from envlab import registry
from tests.tasks import making

A1 = "LeggedGym-Flat-A1-v0"
make = partial(making.make, A1, num_envs=2)


def test_rewards_have_the_scales_of_the_original():
    rewards = registry.load_env_cfg(registry.get_task(A1)).rewards
    weights = {name: term.weight for name, term in vars(rewards).items() if term is not None}
    assert weights == {
        "track_lin_vel_xy_exp": 1.0,
        "track_ang_vel_z_exp": 0.5,
        "lin_vel_z_l2": -2.0,
        "ang_vel_xy_l2": -0.05,
        "dof_torques_l2": -2e-4,
        "dof_acc_l2": -2.5e-7,
        "action_rate_l2": -0.01,
        "feet_air_time": 1.0,
        "undesired_contacts": -1.0,
        "dof_pos_limits": -10.0,
    }


def test_accelerations_are_taken_over_a_control_step():
    env = make()
    generator = torch.Generator().manual_seed(0)
    index = env.reward_manager.active_terms.index("dof_acc_l2")
    for _ in range(5):
        before = env.sim.data.qvel[:, 6:].clone()
        ended = env.step(torch.randn(2, 12, generator=generator))[2]
        assert not ended.any()
        expected = ((env.sim.data.qvel[:, 6:] - before) / 0.02).square().sum(dim=1)
        values = env.reward_manager.step_values[index] / (-2.5e-7 * 0.02)
        assert values.tolist() == pytest.approx(expected.tolist(), rel=1e-4)


def test_pushes_set_the_horizontal_velocity_of_all_robots_at_once():
    push = "env.events.push_robot.interval_range_s=[0.04,0.04]", "env.events.physics_material=null"
    env, calm = (make(*chosen, num_envs=8) for chosen in (push, ("env.events.push_robot=null",)))
    for is_due in (False, True):  # after 0.02 s not yet, for any of them
        for one in (env, calm):
            one.step(torch.zeros_like(one.actions))
        pushed = (env.sim.data.qvel - calm.sim.data.qvel).abs() > 1e-6
        assert (pushed[:, :2] == is_due).all()
        assert not pushed[:, 2:].any()
        assert env.sim.data.qvel[:, :2].abs().max() <= 1.0 + 1e-3
        for one in (env, calm):  # which leaves the common clock alone
            one.reset(options={"reset_mask": torch.arange(8) < 1})
    fast = env.sim.data.qvel.clone()
    fast[:, 0] = 5.0  # a robot's earlier motion does not count
    env.sim.set_velocity(torch.ones(8, dtype=torch.bool), fast)
    for _ in range(2):
        env.step(torch.zeros_like(env.actions))
    assert env.sim.data.qvel[:, :2].abs().max() <= 1.0 + 1e-3


def test_slow_commands_turn_on_the_spot():
    command = make(num_envs=4000).command_manager.get_term("base_velocity").command
    speed = command[:, :2].norm(dim=1)
    slow = speed == 0.0
    assert speed[~slow].min() > 0.2
    # Of the square of 2 m/s by 2 m/s the disc of 0.2 m/s: pi 0.04 / 4.
    assert slow.float().mean().item() == pytest.approx(0.0314, abs=0.01)
    assert (command[slow, 2] != 0.0).all()


def test_rewards_are_never_negative():
    env = make()
    generator = torch.Generator().manual_seed(0)
    rewards = [env.step(5.0 * torch.randn(2, 12, generator=generator))[1] for _ in range(10)]
    assert min(reward.min().item() for reward in rewards) == 0.0
