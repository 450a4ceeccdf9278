"""Targets relative to where joints are."""

from __future__ import annotations

import torch

from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_env_cfg


def test_a_target_is_where_the_joint_is_plus_the_scaled_action():
    task = get_task("Playground-Go1Getup-v0")
    cfg = load_env_cfg(task)
    cfg.events.reset_base.params["num_states"] = 8
    cfg.actions.joint_pos.clip = (-2.0, 2.0)
    env = task.make(cfg, context=DistributedContext(num_threads=1), num_envs=4, seed=0)
    before = env.sim.data.qpos[:, 7:].clone()
    actions = torch.linspace(-3.0, 3.0, 48).view(4, 12)
    env.action_manager.process_action(actions)
    assert torch.equal(env.sim.ctrl, (before + 0.5 * actions).clamp(-2.0, 2.0))
    assert (env.sim.ctrl == 2.0).any()
