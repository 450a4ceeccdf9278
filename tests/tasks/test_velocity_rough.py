"""Go2 on rough ground: its stance on every kind of ground, its scan, and overrides."""

from __future__ import annotations

import torch

from envlab import registry
from envlab.config import compose
from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv

ROUGH = "Isaac-Velocity-Rough-Unitree-Go2-v0"
PLAY = "Isaac-Velocity-Rough-Unitree-Go2-Play-v0"
GENERATOR = "env.scene.terrain.terrain_generator"


def cfg_of(task_id: str, *overrides: str):
    cfg = registry.load_env_cfg(registry.get_task(task_id))
    return compose({"env": cfg}, list(overrides))["env"]


def make(task_id: str, *overrides: str, num_envs: int = 2) -> VectorEnv:
    context = DistributedContext(num_threads=1)
    task = registry.get_task(task_id)
    return task.make(cfg_of(task_id, *overrides), context=context, num_envs=num_envs, seed=0)


def test_play_is_without_noise_on_tiles_of_all_levels():
    env = make(PLAY)
    assert env.cfg.scene.terrain.max_init_terrain_level is None
    seen, plain = env.obs_buf["policy"], env._get_observations()["policy"]
    assert torch.equal(seen, plain)
    assert seen.shape == (2, 235)


def test_robots_stand_on_every_kind_of_ground():
    env = make(ROUGH, num_envs=20)  # one per column: all kinds
    for _ in range(50):
        _, _, terminated, _, _ = env.step(torch.zeros(20, 12))
        assert not terminated.any()
    base = env.sim.data.qpos[:, :3]
    above = base[:, 2] - env.terrain.heights_at(base[:, 0], base[:, 1])
    assert above.min() > 0.18
    assert above.max() < 0.36
    assert (base - env.env_origins)[:, :2].abs().max() < 0.9  # spread by 0.5 m, and settled
    contacts = env.sim.data.sensordata.view(20, -1, 3).norm(dim=2)
    assert contacts.sum(dim=1).min() > 100.0  # N: most of a robot's 147 N


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
