"""mjlab's velocity tasks: sizes, ground and ends; test_fidelity.py holds their numbers."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.tasks import making

ROUGH = [f"Mjlab-Velocity-Rough-Unitree-{robot}" for robot in ("G1", "Go1")]
# Policy, critic and actions. Of G1: three of the pelvis, twice, and of gravity, three times 29 of
# the joints, the command; the critic has heights, times and touches of two feet, and their forces.


make = partial(making.make, num_envs=2)


@pytest.mark.parametrize("task_id", ROUGH)
def test_robots_land_on_every_kind_of_ground_and_see_it(task_id):
    env = make(task_id, num_envs=10)  # one per column: all kinds
    assert len({int(kind) for kind in env.terrain.terrain_types}) == 10
    assert env.sensor_manager.get_term("feet").heights.min() > -0.05  # none starts deep inside
    # The scan is the height above the ground in units of 5 m; its centre is under the root.
    scan = env._get_observations()["policy"][:, -187:]
    root = env.sim.data.qpos[:, :3]
    under = root[:, 2] - env.terrain.heights_at(root[:, 0], root[:, 1])
    assert torch.allclose(scan[:, 93] * 5.0, under, atol=1e-5)
    assert 0.015 < (env.obs_buf["policy"][:, -187:] - scan).abs().max() <= 0.02 + 1e-6
    touched = torch.zeros(10, dtype=torch.bool)
    for _ in range(12):
        _, _, terminated, _, _ = env.step(torch.zeros_like(env.actions))
        assert not terminated.any()
        touched |= env.sensor_manager.get_term("contact_forces").in_contact.any(dim=1)
    assert touched.all()


def test_who_reaches_the_edge_of_the_ground_starts_again_without_having_failed():
    env = make(ROUGH[0])
    qpos = env.sim.data.qpos.clone()
    # 10 tiles of 8 m and 20 m beyond on each side, less 30 cm.
    qpos[:, 0] = torch.tensor([59.6, 59.8])
    qpos[:, 2] = env.default_qpos[0, 2]
    env.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    _, _, terminated, truncated, _ = env.step(torch.zeros_like(env.actions))
    assert truncated.tolist() == [False, True]
    assert not terminated.any()
