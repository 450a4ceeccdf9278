"""Targets relative to where joints are."""

from __future__ import annotations

import torch

from tests.tasks.making import make


def test_a_target_is_where_the_joint_is_plus_the_scaled_action():
    few_falls = "+env.events.reset_base.params.num_states=8"
    clip = "env.actions.joint_pos.clip=[-2.0,2.0]"
    env = make("Playground-Go1Getup-v0", few_falls, clip, num_envs=4)
    before = env.sim.data.qpos[:, 7:].clone()
    actions = torch.linspace(-3.0, 3.0, 48).view(4, 12)
    env.action_manager.process_action(actions)
    assert torch.equal(env.sim.ctrl, (before + 0.5 * actions).clamp(-2.0, 2.0))
    assert (env.sim.ctrl == 2.0).any()


def test_an_offset_is_added_and_bounds_may_be_by_joint():
    few_falls = "+env.events.reset_base.params.num_states=8"
    offset = "env.actions.joint_pos.offset={FL_calf_joint:0.125}"
    clip = "env.actions.joint_pos.clip={FL_hip_joint:[-0.1,0.1]}"
    env = make("Playground-Go1Getup-v0", few_falls, offset, clip, num_envs=4)
    before = env.sim.data.qpos[:, 7:].clone()
    actions = torch.ones(4, 12)
    env.action_manager.process_action(actions)
    names = env.action_manager.names()
    expected = before + 0.5
    expected[:, names.index("FL_calf_joint")] += 0.125
    expected[:, names.index("FL_hip_joint")].clamp_(-0.1, 0.1)
    assert torch.equal(env.sim.ctrl, expected)
