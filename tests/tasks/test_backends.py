"""Tasks move on Warp, on its CPU device, as on MuJoCo; one by default, with --all one a kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from envlab.registry import get_task, load_env_cfg
from tests.tasks.rollouts import draw_actions, make

pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")

BOUNDS = {
    "Isaac-Ant-v0": (2e-4, 3e-3),
    "Isaac-Velocity-Flat-Unitree-Go2-v0": (5e-5, 2e-3),
    "Isaac-Humanoid-Direct-v0": (3e-3, 3e-3),
    "Isaac-Lift-Cube-Franka-v0": (1e-5, 2e-4),
    "Isaac-Repose-Cube-Allegro-v0": (1e-4, 1e-3),
    "Isaac-Quadcopter-Direct-v0": (1e-5, 2e-4),
    "Isaac-Cartpole-Depth-Camera-Direct-v0": (1e-5, None),
}
"""Largest differences of positions and observations over 50 steps: some seven times those that
were measured."""


FIRST, *OTHERS = BOUNDS


@pytest.mark.parametrize(
    "name", [FIRST, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
)
def test_warp_follows_mujoco_for_50_steps(name: str):
    task, (of_positions, of_observations) = get_task(name), BOUNDS[name]
    cfg = load_env_cfg(task).sim
    pair = [make(task, sim=replace(cfg, backend=name)) for name in ("mujoco", "mujoco_warp")]
    for action in draw_actions(pair[0], 50):
        # A hand that moves at random amplifies rounding.
        action *= 0.0 if "Allegro" in name else 0.3
        steps = [env.step(action) for env in pair]
        assert torch.equal(steps[0][2], steps[1][2])
        positions = [env.sim.data.qpos for env in pair]
        assert (positions[0] - positions[1]).abs().max() < of_positions
        seen = [step[0]["policy"] for step in steps]
        if of_observations is None:  # a pixel on an edge may see past it in one of them
            assert ((seen[0] - seen[1]).abs() > 1e-3).float().mean() < 2e-3
        else:
            assert (seen[0] - seen[1]).abs().max() < of_observations
        torch.testing.assert_close(steps[0][1], steps[1][1], rtol=1e-2, atol=1e-4)
    assert not pair[1].sim.overflow().any()
