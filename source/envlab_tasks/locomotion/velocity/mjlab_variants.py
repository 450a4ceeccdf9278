"""Variants of mjlab 1.6.0's velocity tasks: functions that change a configuration and return it.

Differs from mjlab 1.6.0:

- Each kind of ground has columns in proportion to its share, ten in all. In mjlab each kind has one
  column, and robots are spread over the columns by share. Within a level, tiles differ in
  difficulty.
- The ground is a single height field (see docs/terrain.md); mjlab's is made of boxes and height
  fields.
- In a play variant a robot stays on its tile; in mjlab it starts on a random tile.
"""

from __future__ import annotations

from typing import Any

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.managers import CurriculumTermCfg, ObservationTermCfg
from envlab.envs.terms import observation, termination
from envlab.envs.terrain import (
    HfInvertedPyramidSlopedTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    HfRandomUniformTerrainCfg,
    HfWaveTerrainCfg,
    MeshInvertedPyramidStairsTerrainCfg,
    MeshPlaneTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    MjlabVelocityEnvCfg,
    simulation,
    twist,
)


def rough_terrains() -> TerrainGeneratorCfg:
    """Return mjlab's ``ROUGH_TERRAINS_CFG`` with a curriculum."""
    stairs: dict[str, Any] = {
        "proportion": 0.2,
        "step_height_range": (0.0, 0.1),
        "step_width": 0.3,
        "platform_width": 3.0,
        "border_width": 1.0,
    }
    slope: dict[str, Any] = {
        "proportion": 0.1,
        "slope_range": (0.0, 1.0),
        "platform_width": 2.0,
        "border_width": 0.25,
    }
    return TerrainGeneratorCfg(
        curriculum=True,
        num_cols=10,
        sub_terrains={
            "flat": MeshPlaneTerrainCfg(proportion=0.2),
            "pyramid_stairs": MeshPyramidStairsTerrainCfg(**stairs),
            "pyramid_stairs_inv": MeshInvertedPyramidStairsTerrainCfg(**stairs),
            "hf_pyramid_slope": HfPyramidSlopedTerrainCfg(**slope),
            "hf_pyramid_slope_inv": HfInvertedPyramidSlopedTerrainCfg(**slope),
            "random_rough": HfRandomUniformTerrainCfg(
                proportion=0.1, noise_range=(0.02, 0.10), noise_step=0.02, border_width=0.25
            ),
            "wave_terrain": HfWaveTerrainCfg(
                proportion=0.1, amplitude_range=(0.0, 0.2), num_waves=4, border_width=0.25
            ),
        },
    )


def scan_of_the_ground(noise: float | None = None) -> ObservationTermCfg:
    """Return the ground's depth below the root at 187 points, in units of 5 m."""
    scanner = SceneEntityCfg("terrain_scan")
    return observation(mdp.height_scan, noise, scale=1.0 / 5.0, sensor_cfg=scanner, offset=0.0)


def on_rough_ground(cfg: MjlabVelocityEnvCfg) -> MjlabVelocityEnvCfg:
    """Put a task on rough ground whose difficulty rises, with a scan of it.

    An episode ends, without a failure, 30 cm before the ground does.
    """
    cfg.sim = simulation(70, 1500)
    cfg.scene.terrain = TerrainCfg(terrain_generator=rough_terrains())
    cfg.sensors.terrain_scan = mdp.RayCasterCfg()
    cfg.observations.policy.height_scan = scan_of_the_ground(0.1)
    cfg.observations.critic.height_scan = scan_of_the_ground()
    cfg.terminations.out_of_terrain_bounds = termination(
        mdp.terrain_out_of_bounds, distance_buffer=0.3, time_out=True
    )
    assert cfg.curriculum is not None
    cfg.curriculum.terrain_levels = CurriculumTermCfg(
        func=mdp.terrain_levels_vel, params={"command_name": "twist"}
    )
    return cfg


def to_play(cfg: MjlabVelocityEnvCfg) -> MjlabVelocityEnvCfg:
    """Give a task 50 robots, without noise, pushes and curriculum.

    On a plane commands are those of the second stage from the start; rough ground is 5 x 5 tiles of
    all kinds and difficulties, mixed.
    """
    cfg.scene.num_envs = 50
    cfg.observations.policy.enable_corruption = False
    cfg.events.push_robot = None
    cfg.curriculum = None
    if cfg.scene.terrain is None:
        cfg.commands.twist = twist((-1.5, 2.0), (-0.7, 0.7))
    else:
        generator = cfg.scene.terrain.terrain_generator
        generator.num_rows = generator.num_cols = 5
        generator.curriculum, generator.border_width = False, 10.0
        cfg.scene.terrain.max_init_terrain_level = 5
        cfg.terminations.out_of_terrain_bounds = None
    return cfg
