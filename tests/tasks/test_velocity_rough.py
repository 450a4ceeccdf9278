"""Go2 on rough ground: its stance on every kind of ground, its scan, and overrides."""

from __future__ import annotations

import torch

from envlab import registry
from envlab.config import compose
from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv

ROUGH = "Isaac-Velocity-Rough-Unitree-Go2-v0"
GENERATOR = "env.scene.terrain.terrain_generator"


def cfg_of(task_id: str, *overrides: str):
    cfg = registry.load_env_cfg(registry.get_task(task_id))
    return compose({"env": cfg}, list(overrides))["env"]


def make(task_id: str, *overrides: str, num_envs: int = 2) -> VectorEnv:
    context = DistributedContext(num_threads=1)
    task = registry.get_task(task_id)
    return task.make(cfg_of(task_id, *overrides), context=context, num_envs=num_envs, seed=0)


def test_scan_is_clipped_and_noisy_in_training():
    env = make(ROUGH, num_envs=8)
    seen = env.obs_buf["policy"][:, 48:]
    plain = env._get_observations()["policy"][:, 48:]
    assert seen.shape == (8, 187)
    assert plain.abs().max() <= 1.0
    assert seen.abs().max() <= 1.0
    noise = (seen - plain)[plain.abs() < 0.85].abs()
    assert 0.09 < noise.max() <= 0.1 + 1e-6
    assert 0.04 < noise.mean() < 0.06


def test_overrides_reach_the_ground():
    env = make(ROUGH, f"{GENERATOR}.num_rows=2", f"{GENERATOR}.sub_terrains.boxes=null")
    assert env.terrain.num_levels == 2
    plane = make(ROUGH, "env.scene.terrain=null", "env.curriculum.terrain_levels=null")
    assert plane.terrain is None
    plane.step(torch.zeros(2, 12))
    scan = plane._get_observations()["policy"][:, 48:]
    assert torch.allclose(scan, plane.sim.data.qpos[:, 2:3] - 0.5)
