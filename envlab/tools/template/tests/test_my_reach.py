"""The task's own test: it can be built and stepped, and its rewards are right."""

import math

import torch

from envlab import registry


def test_the_fingertip_is_where_the_joints_put_it():
    """Turn the shoulder by a quarter: the arm then points along y."""
    task = registry.get_task("My-Reach-v0")
    env = task.make(registry.load_env_cfg(task), num_envs=4, seed=1, device="cpu")
    obs, _ = env.reset()
    assert obs["policy"].shape == (4, 8)  # two joints' positions and velocities, fingertip, goal
    for _ in range(100):
        _, reward, terminated, truncated, _ = env.step(torch.tensor([[0.5 * math.pi, 0.0]] * 4))
    assert torch.isfinite(reward).all()
    assert not (terminated | truncated).any()
    tip = env.sim.data.site_xpos[:, env.sim.model.site("fingertip").id]
    torch.testing.assert_close(tip, torch.tensor([[0.0, 1.0, 0.1]] * 4), atol=0.02, rtol=0.0)
    env.close()
