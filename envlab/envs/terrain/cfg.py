"""The configuration of generated ground, with Isaac Lab's names and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from envlab.envs.terrain.sub_terrains import (
    HfInvertedPyramidSlopedTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    HfRandomUniformTerrainCfg,
    MeshInvertedPyramidStairsTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    MeshRandomGridTerrainCfg,
    SubTerrainCfg,
)


@dataclass(kw_only=True)
class TerrainGeneratorCfg:
    """A grid of tiles: levels of difficulty along x, kinds of ground along y."""

    seed: int = 0
    """Seed of the ground. It belongs to the task, not the run, so that all ranks, resumed runs and
    runs of other seeds have the same ground."""
    curriculum: bool = False
    """Whether rows get harder along x, and each column has one kind; else all is at random."""
    size: tuple[float, float] = (8.0, 8.0)
    """Lengths of a tile along x and y, in m."""
    border_width: float = 20.0
    """Width of the flat ground around all tiles, in m."""
    num_rows: int = 10
    """Tiles along x: levels."""
    num_cols: int = 20
    """Tiles along y: kinds."""
    horizontal_scale: float = 0.1
    """Distance of two vertices, in m."""
    vertical_scale: float = 0.005
    """Smallest step of the heights of the kinds called ``Hf...``, in m."""
    difficulty_range: tuple[float, float] = (0.0, 1.0)
    """Difficulty of the easiest and of the hardest tile, 0 to 1."""
    sub_terrains: dict[str, SubTerrainCfg] = field(default_factory=dict)
    """Kinds of ground by a name; null removes one."""


@dataclass(kw_only=True)
class TerrainCfg:
    """Generated ground (``env.scene.terrain.*``), Isaac Lab's ``TerrainImporterCfg``."""

    __removable__: ClassVar[bool] = True

    max_init_terrain_level: int | None = 5
    """Episodes start at random levels up to this one; null: up to the last."""
    terrain_generator: TerrainGeneratorCfg = field(default_factory=TerrainGeneratorCfg)
    """Configuration of the generator."""


def rough_terrains() -> TerrainGeneratorCfg:
    """Return Isaac Lab's ``ROUGH_TERRAINS_CFG``: stairs, blocks, noise and slopes."""
    return TerrainGeneratorCfg(
        sub_terrains={
            "pyramid_stairs": MeshPyramidStairsTerrainCfg(
                proportion=0.2,
                step_height_range=(0.05, 0.23),
                step_width=0.3,
                platform_width=3.0,
                border_width=1.0,
            ),
            "pyramid_stairs_inv": MeshInvertedPyramidStairsTerrainCfg(
                proportion=0.2,
                step_height_range=(0.05, 0.23),
                step_width=0.3,
                platform_width=3.0,
                border_width=1.0,
            ),
            "boxes": MeshRandomGridTerrainCfg(
                proportion=0.2, grid_width=0.45, grid_height_range=(0.05, 0.2), platform_width=2.0
            ),
            "random_rough": HfRandomUniformTerrainCfg(
                proportion=0.2, noise_range=(0.02, 0.10), noise_step=0.02, border_width=0.25
            ),
            "hf_pyramid_slope": HfPyramidSlopedTerrainCfg(
                proportion=0.1, slope_range=(0.0, 0.4), platform_width=2.0, border_width=0.25
            ),
            "hf_pyramid_slope_inv": HfInvertedPyramidSlopedTerrainCfg(
                proportion=0.1, slope_range=(0.0, 0.4), platform_width=2.0, border_width=0.25
            ),
        }
    )
