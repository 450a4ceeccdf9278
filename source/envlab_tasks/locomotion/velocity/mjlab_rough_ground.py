"""The common part of mjlab 1.6.0's velocity tasks on rough ground: a scan, levels, and an edge.

Differs from mjlab 1.6.0:

- Each kind of ground has columns in proportion to its share, ten in all. In mjlab each kind has one
  column, and robots are spread over the columns by share. Within a level, tiles differ in
  difficulty.
- The ground is a single height field (see docs/terrain.md); mjlab's is made of boxes and height
  fields.
- In a play variant a robot stays on its tile; in mjlab it starts on a random tile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envlab.envs import SceneEntityCfg, default, mdp
from envlab.envs.managers import CurriculumTermCfg, ObservationTermCfg, TerminationTermCfg
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
    CriticCfg,
    CurriculumCfg,
    ObservationsCfg,
    PolicyCfg,
    TerminationsCfg,
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


def play_terrain() -> TerrainCfg:
    """Return 5 x 5 tiles of all kinds and difficulties, mixed."""
    generator = rough_terrains()
    generator.num_rows = generator.num_cols = 5
    generator.curriculum, generator.border_width = False, 10.0
    return TerrainCfg(max_init_terrain_level=5, terrain_generator=generator)


def scan_of_the_ground(noise: float | None = None) -> ObservationTermCfg:
    """Return the ground's depth below the root at 187 points, in units of 5 m."""
    scanner = SceneEntityCfg("terrain_scan")
    return observation(mdp.height_scan, noise, scale=1.0 / 5.0, sensor_cfg=scanner, offset=0.0)


@dataclass(kw_only=True)
class RoughPolicyCfg(PolicyCfg):
    """The robot's measurements, and the ground around it, with noise."""

    height_scan: ObservationTermCfg = default(scan_of_the_ground(0.1))


@dataclass(kw_only=True)
class RoughCriticCfg(CriticCfg, RoughPolicyCfg):
    """The same without noise, with true joint positions, and how the feet step."""

    height_scan: ObservationTermCfg = default(scan_of_the_ground())


@dataclass(kw_only=True)
class RoughObservationsCfg(ObservationsCfg):
    """The policy's group, and the critic's."""

    policy: PolicyCfg = field(default_factory=RoughPolicyCfg)
    critic: CriticCfg = field(default_factory=RoughCriticCfg)


NO_NOISE = RoughObservationsCfg(policy=RoughPolicyCfg(enable_corruption=False))


@dataclass(kw_only=True)
class RoughCurriculumCfg(CurriculumCfg):
    """Robots that walk far get harder ground; commands get faster."""

    terrain_levels: CurriculumTermCfg | None = default(
        CurriculumTermCfg(func=mdp.terrain_levels_vel, params={"command_name": "twist"})
    )


@dataclass(kw_only=True)
class RoughTerminationsCfg(TerminationsCfg):
    """The same, and the episode ends, without a failure, 30 cm before the ground does."""

    out_of_terrain_bounds: TerminationTermCfg | None = default(
        termination(mdp.terrain_out_of_bounds, distance_buffer=0.3, time_out=True)
    )
