"""Variants of Isaac Lab 2.3's velocity tasks: functions that change a configuration and return it.

Differs from Isaac Lab 2.3.2:

- The variants to play have no curriculum; Isaac Lab's keep ``terrain_levels``, although their tiles
  are not ordered by difficulty.
"""

from __future__ import annotations

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.terms import observation
from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    MeshRandomGridTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
    rough_terrains,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import CurriculumCfg, VelocityEnvCfg


def full_terrains() -> TerrainGeneratorCfg:
    """Return ``ROUGH_TERRAINS_CFG`` with a curriculum."""
    generator = rough_terrains()
    generator.curriculum = True
    return generator


def small_terrains() -> TerrainGeneratorCfg:
    """Return the same with lower blocks and noise, for small robots."""
    generator = full_terrains()
    generator.sub_terrains["boxes"] = MeshRandomGridTerrainCfg(
        proportion=0.2, grid_width=0.45, grid_height_range=(0.025, 0.1), platform_width=2.0
    )
    generator.sub_terrains["random_rough"] = HfRandomUniformTerrainCfg(
        proportion=0.2, noise_range=(0.01, 0.06), noise_step=0.01, border_width=0.25
    )
    return generator


def on_rough_ground(
    cfg: VelocityEnvCfg, terrains: TerrainGeneratorCfg, scanner: mdp.RayCasterCfg | None = None
) -> VelocityEnvCfg:
    """Put a task on rough ground whose difficulty rises, with a scan of 187 heights.

    Args:
        cfg: The task.
        terrains: The ground.
        scanner: The scan; None: around the root.
    """
    cfg.scene.terrain = TerrainCfg(terrain_generator=terrains)
    cfg.sensors.height_scanner = scanner or mdp.RayCasterCfg()
    scan = SceneEntityCfg("height_scanner")
    cfg.observations.policy.height_scan = observation(
        mdp.height_scan, 0.1, sensor_cfg=scan, clip=(-1.0, 1.0)
    )
    cfg.curriculum = CurriculumCfg()
    return cfg


def to_play(cfg: VelocityEnvCfg) -> VelocityEnvCfg:
    """Give a task few robots, without noise and pushes."""
    cfg.events.base_external_force_torque = cfg.events.push_robot = None
    return few_robots(cfg)


def few_robots(cfg: VelocityEnvCfg) -> VelocityEnvCfg:
    """Give a task 50 robots, without noise; on rough ground, on 5 x 5 mixed tiles."""
    cfg.scene.num_envs = 50
    cfg.observations.policy.enable_corruption = False
    if cfg.scene.terrain is not None:
        generator = cfg.scene.terrain.terrain_generator
        generator.num_rows = generator.num_cols = 5
        generator.curriculum = False
        cfg.scene.terrain.max_init_terrain_level = None
        cfg.curriculum = None
    return cfg
