"""The common part of velocity tasks on rough ground: a scan of it, and a curriculum over it.

Differs from Isaac Lab 2.3.2:

- The variants to play have no curriculum; Isaac Lab's keep ``terrain_levels``, although their tiles
  are not ordered by difficulty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envlab.envs import SceneEntityCfg, default, mdp
from envlab.envs.managers import CurriculumTermCfg, ObservationTermCfg
from envlab.envs.terms import observation
from envlab.envs.terrain import TerrainCfg, TerrainGeneratorCfg, rough_terrains
from envlab_tasks.locomotion.velocity.velocity_env_cfg import ObservationsCfg, PolicyCfg


def scan_of_the_ground(body_names: str | None = None) -> ObservationTermCfg:
    """Return the ground's height at 187 points around the root, or around a body."""
    params: dict[str, Any] = {"sensor_cfg": mdp.RayCasterCfg()}
    if body_names is not None:
        params["asset_cfg"] = SceneEntityCfg("robot", body_names=body_names)
    return observation(mdp.height_scan, 0.1, **params, clip=(-1.0, 1.0))


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
    """The robot's measurements, and the ground's height around its root."""

    height_scan: ObservationTermCfg = default(scan_of_the_ground())


@dataclass(kw_only=True)
class CurriculumCfg:
    """Robots that walk far get harder ground."""

    terrain_levels: CurriculumTermCfg | None = default(
        CurriculumTermCfg(func=mdp.terrain_levels_vel)
    )


def rough_observations(body_names: str | None = None, *, noise: bool = True) -> ObservationsCfg:
    """Return the observations with a scan around the root, or around a body."""
    scan = scan_of_the_ground(body_names)
    return ObservationsCfg(policy=RoughPolicyCfg(enable_corruption=noise, height_scan=scan))
