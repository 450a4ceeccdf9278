"""Generated ground: kinds of terrain, the generator, and positions of environments on it."""

from envlab.envs.terrain.cfg import TerrainCfg, TerrainGeneratorCfg, rough_terrains
from envlab.envs.terrain.parkour import (
    ParkourGapsTerrainCfg,
    ParkourHurdlesTerrainCfg,
    ParkourStepsTerrainCfg,
    ParkourTerrainCfg,
)
from envlab.envs.terrain.sub_terrains import (
    HfDiscreteObstaclesTerrainCfg,
    HfInvertedPyramidSlopedTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    HfRandomUniformTerrainCfg,
    HfSteppingStonesTerrainCfg,
    HfWaveTerrainCfg,
    MeshInvertedPyramidStairsTerrainCfg,
    MeshPlaneTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    MeshRandomGridTerrainCfg,
    SubTerrainCfg,
)
from envlab.envs.terrain.terrain import Terrain

__all__ = [
    "HfDiscreteObstaclesTerrainCfg",
    "HfInvertedPyramidSlopedTerrainCfg",
    "HfPyramidSlopedTerrainCfg",
    "HfRandomUniformTerrainCfg",
    "HfSteppingStonesTerrainCfg",
    "HfWaveTerrainCfg",
    "MeshInvertedPyramidStairsTerrainCfg",
    "MeshPlaneTerrainCfg",
    "MeshPyramidStairsTerrainCfg",
    "MeshRandomGridTerrainCfg",
    "ParkourGapsTerrainCfg",
    "ParkourHurdlesTerrainCfg",
    "ParkourStepsTerrainCfg",
    "ParkourTerrainCfg",
    "SubTerrainCfg",
    "Terrain",
    "TerrainCfg",
    "TerrainGeneratorCfg",
    "rough_terrains",
]
