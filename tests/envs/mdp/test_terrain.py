"""The curriculum over levels of ground, and starts on flat patches and on any tile."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.managers import CurriculumTermCfg, EventTermCfg
from envlab.envs.terms import at_reset, observation
from envlab.envs.terrain import FlatPatchSamplingCfg
from envlab.errors import ConfigurationError
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, select, terms
from tests.envs.terrain.hills import NOISE, STAIRS, make_env, terrain

COMMAND = mdp.UniformCommandCfg(
    resampling_time_range=(100.0, 100.0), ranges=[(0.6, 0.6), (0.8, 0.8), (5.0, 5.0)]
)
"""1 m/s, and a turn that does not count."""


def make_walkers(num_envs: int, **fields):
    return make_env(
        num_envs,
        episode_length_s=4.0,  # so that 2 m are half the way
        commands=terms(base_velocity=COMMAND),
        curriculum=terms(terrain_levels=CurriculumTermCfg(func=mdp.terrain_levels_vel)),
        **fields,
    )


def walk(env, *distances: float) -> None:
    """Put the robots so many metres from their origins."""
    qpos = env.sim.data.qpos.clone()
    way = torch.tensor(distances).unsqueeze(1) * torch.tensor([0.6, 0.8])
    qpos[:, :2] = env.env_origins[:, :2] + way
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos)


def test_far_walkers_go_up_and_slow_ones_down():
    env = make_walkers(4)
    env.terrain.move(torch.tensor([1, 1, 1, 1]))
    walk(env, 3.1, 2.1, 1.9, 3.1)  # tiles are 6 m long
    mask = torch.tensor([True, True, True, False])
    robot = select(env)
    mean = mdp.terrain_levels_vel(env, mask, asset_cfg=robot)
    assert env.terrain.terrain_levels.tolist() == [2, 1, 0, 1]
    assert float(mean) == 1.0


def test_levels_change_at_the_end_of_episodes_and_are_logged():
    env = make_walkers(2)
    env.terrain.move(torch.tensor([2, 2]))
    env.episode_length_buf = torch.tensor([399, 0])  # the first ends with the next step
    walk(env, 0.0, 0.0)
    *_, info = env.step(torch.zeros(2, 1))
    assert env.terrain.terrain_levels.tolist() == [1, 2]
    assert float(info["log"]["Curriculum/terrain_levels"]) == 1.5
    assert env.sim.data.qpos[0, 0] == -3.0  # level 1


def test_curriculum_without_levels_names_the_setting_to_remove():
    env = make_walkers(2, plane=True)
    with pytest.raises(ConfigurationError, match=r"Set env\.curriculum\.terrain_levels=null"):
        env.step(torch.zeros(2, 1))


def test_the_edge_is_that_of_the_border():
    env = make_walkers(4)  # 4 x 2 tiles of 6 m and a border of 5 m: 34 x 22 m
    qpos = env.sim.data.qpos.clone()
    qpos[:, :2] = torch.tensor([[14.9, 0.0], [-15.1, 0.0], [0.0, 8.9], [0.0, 9.1]])
    env.sim.reset(torch.ones(4, dtype=torch.bool), qpos)
    robot = select(env)
    outside = mdp.terrain_out_of_bounds(env, distance_buffer=2.0, asset_cfg=robot)
    assert outside.tolist() == [False, True, False, True]
    plane = make_env(2, plane=True)
    assert mdp.terrain_out_of_bounds(plane, asset_cfg=robot).tolist() == [False, False]


PATCHES = {
    "init_pos": FlatPatchSamplingCfg(num_patches=5, patch_radius=0.2, z_range=(-0.1, 0.1)),
    "spawn": FlatPatchSamplingCfg(num_patches=1, x_range=(0.2, 0.2), y_range=(0.1, 0.1)),
}


def on_patches(num_envs: int = 6, *, plane: bool = False, **events):
    """Return hoppers that start on flat patches of stairs' platforms, or by other events."""
    ground = terrain()
    stairs = dataclasses.replace(STAIRS, flat_patch_sampling=PATCHES)
    ground.terrain_generator.sub_terrains = {"stairs": stairs, "noise": NOISE}
    start = at_reset(mdp.reset_root_state_from_terrain, pose_range={}, velocity_range={})
    found = terms(**(events or {"start": start}))
    return make_env(num_envs, ground=ground, plane=plane, events=found)


def test_robots_start_on_the_flat_patches_of_their_tiles():
    env = on_patches(64)
    patches = env.terrain.flat_patches["init_pos"]
    tiles = env.terrain.tiles(env.terrain.terrain_levels)
    start = env.sim.data.qpos[:, :3] - torch.tensor([0.0, 0.0, 0.1])  # the default height
    off = (patches[tiles] - start.unsqueeze(1)).abs().amax(dim=2).amin(dim=1)
    assert off.max() < 1e-5
    chosen = (patches[tiles] - start.unsqueeze(1)).abs().amax(dim=2).argmin(dim=1)
    assert set(chosen[:32].tolist()) == {0, 1, 2, 3, 4}
    noise = env.terrain.terrain_types == 1
    assert torch.allclose(start[noise], env.env_origins[noise], atol=1e-6)  # it has no patches


def test_draws_are_added_to_flat_patches():
    start = at_reset(
        mdp.reset_root_state_from_flat_patches,
        pose_range={"x": (0.5, 0.5), "yaw": (math.pi, math.pi)},
        velocity_range={"y": (2.0, 2.0)},
    )
    env = on_patches(2, start=start)
    place = env.sim.data.qpos[0, :2] - env.env_origins[0, :2]
    assert place.tolist() == pytest.approx([0.7, 0.1], abs=1e-5)
    assert env.sim.data.qpos[0, 3:7].abs().tolist() == pytest.approx([0, 0, 0, 1], abs=1e-6)
    assert env.sim.data.qvel[0, 1] == pytest.approx(2.0, abs=1e-5)
    plane = on_patches(2, plane=True, start=start)
    assert plane.sim.data.qpos[:, 0].tolist() == pytest.approx([0.5, 0.5])


def test_starts_that_are_not_there_are_refused_in_one_sentence():
    def env(plane: bool = False, func=mdp.reset_root_state_from_terrain, **pose):
        start = at_reset(func, pose_range=pose, velocity_range={})
        return on_patches(2, plane=plane, start=start)

    other = at_reset(mdp.reset_root_state_from_terrain, pose_range={}, velocity_range={})
    assert_refused(
        {
            "patches called init_pos, but the ground has none": lambda: env(plane=True),
            "init_pos, but the ground has none. Add": lambda: make_env(2, events=terms(a=other)),
            "has the key 'x', but the position is that of": lambda: env(x=(0.0, 1.0)),
            "has the key 'yam'": lambda: env(yam=(0.0, 1.0)),
        }
    )


def anywhere() -> dict[str, object]:
    start = at_reset(mdp.reset_root_state_uniform, pose_range={}, velocity_range={})
    return {"tile": at_reset(mdp.randomize_terrain), "start": start}


def test_episodes_may_begin_on_any_tile():
    env = on_patches(128, **anywhere())
    tiles = env.terrain.tiles(env.terrain.terrain_levels)
    assert set(tiles.tolist()) == set(range(8))  # max_init_terrain_level is 2 of 3
    first = tiles.clone()
    assert torch.equal(env.sim.data.qpos[:, 0], env.terrain.terrain_levels * 6.0 - 9.0)
    assert torch.equal(env.sim.data.qpos[:, 1], env.terrain.terrain_types * 6.0 - 3.0)
    env.episode_length_buf[:64] = 9  # these end with the next step
    env.step(torch.zeros(128, 1))
    tiles = env.terrain.tiles(env.terrain.terrain_levels)
    assert torch.equal(tiles[64:], first[64:])
    assert (tiles[:64] != first[:64]).float().mean() > 0.7
    on_a_plane = on_patches(2, plane=True, **anywhere())
    assert not on_a_plane.sim.data.qpos[:, :2].any()


def test_tiles_return_to_an_environment_that_has_drawn_none_yet():
    tile = EventTermCfg(func=mdp.randomize_terrain, mode="dusk")
    env, other = (on_patches(32, tile=tile) for _ in range(2))
    env.event_manager.apply("dusk", torch.ones(32, dtype=torch.bool))
    assert not torch.equal(env.terrain.terrain_types, other.terrain.terrain_types)
    other.set_state(env.state())
    assert torch.equal(env.terrain.terrain_types, other.terrain.terrain_types)
    assert torch.equal(env.env_origins, other.env_origins)


def test_starts_keep_the_promises_of_every_task():
    start = at_reset(mdp.reset_root_state_from_terrain, pose_range={}, velocity_range={})
    cfg = on_patches(8, tile=at_reset(mdp.randomize_terrain), start=start).cfg
    cfg.sim.data_fields = ("xpos", "xquat")
    cfg.observations = terms(policy=group(pose=observation(mdp.body_pose_w)))
    assert_keeps_promises(cfg)


def test_a_state_of_before_tiles_were_drawn_is_restored():
    env = on_patches(2)
    state = env.state()
    assert state["terrain"].pop("drawn_types") is None
    env.set_state(state)


def to_targets(num_envs: int = 6, *, target: str = "target", **ranges):
    """Return hoppers that are sent to flat patches of their tiles."""
    ground = terrain()
    patches = {target: FlatPatchSamplingCfg(num_patches=3, patch_radius=0.2, z_range=(-0.1, 0.1))}
    stairs = dataclasses.replace(STAIRS, flat_patch_sampling=patches)
    ground.terrain_generator.sub_terrains = {"stairs": stairs}
    command = mdp.TerrainBasedPose2dCommandCfg(
        simple_heading=False,
        resampling_time_range=(0.1, 0.1),
        ranges=mdp.Pose2dRangesCfg(**ranges),
    )
    seen = group(goal=observation(mdp.generated_commands, command_name="goal"))
    return make_env(
        num_envs, ground=ground, commands=terms(goal=command), observations=terms(policy=seen)
    )


def test_robots_are_sent_to_flat_patches_of_their_tiles():
    env = to_targets(48, heading=(0.5, 0.6))
    term = env.command_manager.get_term("goal")
    patches = env.terrain.flat_patches["target"][env.terrain.tiles(env.terrain.terrain_levels)]
    goals = term.position - torch.tensor([0.0, 0.0, 0.1])  # the default height
    off = (patches - goals.unsqueeze(1)).abs().amax(dim=2)
    assert off.amin(dim=1).max() < 1e-5
    assert {*off.argmin(dim=1).tolist()} == {0, 1, 2}
    assert ((term.heading >= 0.5) & (term.heading <= 0.6)).all()
    assert term.bounds() == {"heading (rad)": (0.5, 0.6)}
    term.hold([0.2])
    assert term.heading.tolist() == pytest.approx([0.2] * 48)
    assert_keeps_promises(to_targets(2).cfg)


def test_places_that_are_no_patches_are_refused():
    assert_refused(
        {
            "needs flat patches called target, but the ground has elsewhere": lambda: to_targets(
                target="elsewhere"
            ),
            r"ranges.pos_x is \(0.0, 1.0\), but the places": lambda: to_targets(pos_x=(0.0, 1.0)),
        }
    )
