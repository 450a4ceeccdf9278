"""Where environments are on generated ground: levels, types, and their exact return."""

from __future__ import annotations

import pytest
import torch

from envlab.errors import ConfigurationError
from tests.envs.terrain.hills import NUM_ROWS, make_env, terrain


def everyone(env) -> torch.Tensor:
    return torch.ones(env.num_envs, dtype=torch.bool)


def step(env, steps: int = 1) -> None:
    for _ in range(steps):
        env.step(torch.zeros(env.num_envs, 1))


def test_types_are_spread_evenly_and_levels_drawn_up_to_the_limit():
    env = make_env(64)
    assert env.terrain.terrain_types.tolist() == [0] * 32 + [1] * 32
    assert set(env.terrain.terrain_levels.tolist()) == {0, 1, 2}
    env = make_env(64, ground=terrain(max_init_terrain_level=None))
    assert set(env.terrain.terrain_levels.tolist()) == {0, 1, 2, 3}
    env = make_env(16, ground=terrain(max_init_terrain_level=0))
    assert (env.terrain.terrain_levels == 0).all()


def test_origins_are_the_middles_of_the_tiles():
    env = make_env(8)
    levels, types = env.terrain.terrain_levels, env.terrain.terrain_types
    assert torch.equal(env.env_origins[:, 0], levels * 6.0 - 9.0)
    assert torch.equal(env.env_origins[:, 1], types * 6.0 - 3.0)
    ground = env.terrain.heights_at(*env.env_origins[:, :2].T)
    assert torch.allclose(env.env_origins[:4, 2], ground[:4].float(), atol=1e-5)  # platforms
    assert torch.equal(env.sim.data.qpos[:, :3], env.env_origins + torch.tensor([0.0, 0.0, 0.1]))


def test_levels_move_by_one_and_beyond_the_last_are_drawn_anew():
    env = make_env(200)
    env.terrain.move(torch.arange(200) % NUM_ROWS)
    before = env.terrain.terrain_levels.clone()
    move_up = torch.arange(200) % 8 < 4
    mask = torch.arange(200) < 160
    env.terrain.update_env_origins(mask, move_up, ~move_up)
    after = env.terrain.terrain_levels
    assert torch.equal(after[160:], before[160:])
    up = mask & move_up & (before < 3)
    assert torch.equal(after[up], before[up] + 1)
    down = mask & ~move_up
    assert torch.equal(after[down], (before[down] - 1).clamp(min=0))
    anew = after[mask & move_up & (before == 3)]
    assert set(anew.tolist()) == {0, 1, 2, 3}
    assert torch.equal(env.env_origins[:, 0], after * 6.0 - 9.0)


def test_levels_return_with_the_state_and_restart_with_a_seed():
    env, other = make_env(8, seed=1), make_env(8, seed=2)
    start = env.terrain.terrain_levels.clone()
    env.terrain.update_env_origins(everyone(env), everyone(env), ~everyone(env))
    assert not torch.equal(env.terrain.terrain_levels, other.terrain.terrain_levels)
    other.set_state(env.state())
    assert torch.equal(env.terrain.terrain_levels, other.terrain.terrain_levels)
    assert torch.equal(env.env_origins, other.env_origins)
    env.reset()
    assert not torch.equal(env.terrain.terrain_levels, start)
    env.reset(seed=1)
    assert torch.equal(env.terrain.terrain_levels, start)
    with pytest.raises(ConfigurationError, match="max_init_terrain_level is -1; give 0 or more"):
        make_env(2, ground=terrain(max_init_terrain_level=-1))


def test_a_robot_at_no_place_sees_no_height():
    """Its coordinates are NaN until the guard resets it; on Warp's backend they are seen before."""
    env = make_env(4)
    nowhere = torch.tensor([float("nan"), float("inf"), 0.0])
    heights = env.terrain.heights_at(nowhere, nowhere.flip(0))
    assert heights.isnan().tolist() == [True, False, True]
    corner = torch.tensor([1e6])
    assert float(env.terrain.heights_at(corner, corner)) == float(heights[1])  # both infinite


def test_a_kind_that_was_removed_has_no_name():
    ground = terrain()
    first, *others = ground.terrain_generator.sub_terrains
    ground.terrain_generator.sub_terrains[first] = None
    env = make_env(4, ground=ground)
    assert env.terrain.kind_names == others
    assert int(env.terrain.terrain_kinds.max()) < len(others)
