"""mjlab's velocity tasks: sizes, ground and ends; test_fidelity.py holds their numbers."""

from __future__ import annotations

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.registry import get_task, load_agent_values, load_env_cfg

ROUGH = [f"Mjlab-Velocity-Rough-Unitree-{robot}" for robot in ("G1", "Go1")]
# Policy, critic and actions. Of G1: three of the pelvis, twice, and of gravity, three times 29 of
# the joints, the command; the critic has heights, times and touches of two feet, and their forces.


def make(task_id: str, num_envs: int = 2) -> VectorEnv:
    task = get_task(task_id)
    context = DistributedContext(num_threads=1)
    return task.make(load_env_cfg(task), context=context, num_envs=num_envs, seed=0)


@pytest.mark.parametrize("task_id", ROUGH)
def test_robots_land_on_every_kind_of_ground(task_id):
    env = make(task_id, num_envs=10)  # one per column: all kinds
    assert len({int(kind) for kind in env.terrain.terrain_types}) == 10
    feet = env.sensor_manager.get_term("feet")
    assert feet.heights.min() > -0.05  # none starts deep in the ground
    touched = torch.zeros(10, dtype=torch.bool)
    for _ in range(12):
        _, _, terminated, _, _ = env.step(torch.zeros_like(env.actions))
        assert not terminated.any()
        touched |= env.sensor_manager.get_term("contact_forces").in_contact.any(dim=1)
    assert touched.all()


@pytest.mark.parametrize("task_id", ROUGH)
def test_the_scan_is_the_height_above_the_ground_in_units_of_5_m(task_id):
    env = make(task_id, num_envs=10)
    columns = [group.shape[1] for group in env.obs_buf.values()]
    scan = env._get_observations()["policy"][:, columns[0] - 187 :]
    root = env.sim.data.qpos[:, :3]
    under = root[:, 2] - env.terrain.heights_at(root[:, 0], root[:, 1])
    assert torch.allclose(scan[:, 93] * 5.0, under, atol=1e-5)  # the grid's centre
    noisy = env._sample_observations()["policy"][:, columns[0] - 187 :]
    assert 0.015 < (noisy - scan).abs().max() <= 0.02 + 1e-6


@pytest.mark.parametrize("task_id", ROUGH)
def test_who_reaches_the_edge_of_the_ground_starts_again_without_having_failed(task_id):
    env = make(task_id)
    qpos = env.sim.data.qpos.clone()
    # 10 tiles of 8 m and 20 m beyond on each side, less 30 cm.
    qpos[:, 0] = torch.tensor([59.6, 59.8])
    qpos[:, 2] = env.default_qpos[0, 2]
    env.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    _, _, terminated, truncated, _ = env.step(torch.zeros_like(env.actions))
    assert truncated.tolist() == [False, True]
    assert not terminated.any()


def test_a_tracked_motion_has_less_entropy():
    tracked = load_agent_values(get_task("Mjlab-Tracking-Flat-Unitree-G1"), "rsl_rl")
    assert tracked is not None
    assert tracked["algorithm"]["entropy_coef"] == 0.005
