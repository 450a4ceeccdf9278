"""The common part of velocity tasks on rough ground: a scan of it, and a curriculum over it.

Differs from Isaac Lab 2.3.2:

- The variants to play have no curriculum; Isaac Lab's keep ``terrain_levels``, although their tiles
  are not ordered by difficulty.
"""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneEntityCfg, default, mdp
from envlab.envs.managers import CurriculumTermCfg, ObservationTermCfg
from envlab.envs.terms import observation
from envlab.envs.terrain import TerrainCfg, TerrainGeneratorCfg, rough_terrains
from envlab_tasks.locomotion.velocity.velocity_env_cfg import ObservationsCfg, PolicyCfg, SensorsCfg

SCANNER = SceneEntityCfg("height_scanner")
SCANNING = SensorsCfg(height_scanner=mdp.RayCasterCfg())
"""Contact forces, and the ground's height at 187 points around the root."""


def full_terrains() -> TerrainGeneratorCfg:
    """Return ``ROUGH_TERRAINS_CFG`` with a curriculum."""
    generator = rough_terrains()
    generator.curriculum = True
    return generator


def few_tiles(generator: TerrainGeneratorCfg) -> TerrainCfg:
    """Return 5 x 5 tiles of all kinds and difficulties, mixed."""
    generator.num_rows = generator.num_cols = 5
    generator.curriculum = False
    return TerrainCfg(max_init_terrain_level=None, terrain_generator=generator)


@dataclass(kw_only=True)
class RoughPolicyCfg(PolicyCfg):
    """The robot's measurements, and the ground's height around it."""

    height_scan: ObservationTermCfg = default(
        observation(mdp.height_scan, 0.1, sensor_cfg=SCANNER, clip=(-1.0, 1.0))
    )


@dataclass(kw_only=True)
class CurriculumCfg:
    """Robots that walk far get harder ground."""

    terrain_levels: CurriculumTermCfg | None = default(
        CurriculumTermCfg(func=mdp.terrain_levels_vel)
    )


def rough_observations(*, noise: bool = True) -> ObservationsCfg:
    """Return the observations with a scan of the ground."""
    return ObservationsCfg(policy=RoughPolicyCfg(enable_corruption=noise))
