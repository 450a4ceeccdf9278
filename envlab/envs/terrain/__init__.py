"""Generated ground: kinds of terrain, the generator, and positions of environments on it.

Begin with :class:`TerrainGeneratorCfg` in ``cfg``, and the kinds of tiles in ``sub_terrains`` (with
``rings``, ``scattered``, ``obstacles``), which fill a ``tile``, where flat places to start from are
found. ``generator`` lays tiles out by level and puts them into a model, and ``terrain`` has each
environment's place and level.
"""

from envlab.envs.terrain.cfg import TerrainCfg, TerrainGeneratorCfg, rough_terrains
from envlab.envs.terrain.obstacles import (
    BoxObjectCfg,
    MeshRepeatedBoxesTerrainCfg,
    MeshRepeatedCylindersTerrainCfg,
    MeshRepeatedPyramidsTerrainCfg,
    ParkourGapsTerrainCfg,
    ParkourHurdlesTerrainCfg,
    ParkourStepsTerrainCfg,
    ParkourTerrainCfg,
    RepeatedObjectCfg,
    RoundObjectCfg,
)
from envlab.envs.terrain.rings import (
    BoxNestedRingsTerrainCfg,
    BoxOpenStairsTerrainCfg,
    BoxRandomStairsTerrainCfg,
    MeshBoxTerrainCfg,
    MeshFloatingRingTerrainCfg,
    MeshGapTerrainCfg,
    MeshPitTerrainCfg,
    MeshRailsTerrainCfg,
)
from envlab.envs.terrain.scattered import (
    BoxFlatTerrainCfg,
    BoxInvertedPyramidStairsTerrainCfg,
    BoxNarrowBeamsTerrainCfg,
    BoxPyramidStairsTerrainCfg,
    BoxRandomGridTerrainCfg,
    BoxRandomSpreadTerrainCfg,
    BoxSteppingStonesTerrainCfg,
    BoxTiltedGridTerrainCfg,
    HfInvertedPyramidStairsTerrainCfg,
    HfPerlinNoiseTerrainCfg,
    HfPyramidStairsTerrainCfg,
    MeshStarTerrainCfg,
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
from envlab.envs.terrain.tile import (
    FlatPatchSamplingCfg,
)

__all__ = [
    "BoxFlatTerrainCfg",
    "BoxInvertedPyramidStairsTerrainCfg",
    "BoxNarrowBeamsTerrainCfg",
    "BoxNestedRingsTerrainCfg",
    "BoxObjectCfg",
    "BoxOpenStairsTerrainCfg",
    "BoxPyramidStairsTerrainCfg",
    "BoxRandomGridTerrainCfg",
    "BoxRandomSpreadTerrainCfg",
    "BoxRandomStairsTerrainCfg",
    "BoxSteppingStonesTerrainCfg",
    "BoxTiltedGridTerrainCfg",
    "FlatPatchSamplingCfg",
    "HfDiscreteObstaclesTerrainCfg",
    "HfInvertedPyramidSlopedTerrainCfg",
    "HfInvertedPyramidStairsTerrainCfg",
    "HfPerlinNoiseTerrainCfg",
    "HfPyramidSlopedTerrainCfg",
    "HfPyramidStairsTerrainCfg",
    "HfRandomUniformTerrainCfg",
    "HfSteppingStonesTerrainCfg",
    "HfWaveTerrainCfg",
    "MeshBoxTerrainCfg",
    "MeshFloatingRingTerrainCfg",
    "MeshGapTerrainCfg",
    "MeshInvertedPyramidStairsTerrainCfg",
    "MeshPitTerrainCfg",
    "MeshPlaneTerrainCfg",
    "MeshPyramidStairsTerrainCfg",
    "MeshRailsTerrainCfg",
    "MeshRandomGridTerrainCfg",
    "MeshRepeatedBoxesTerrainCfg",
    "MeshRepeatedCylindersTerrainCfg",
    "MeshRepeatedPyramidsTerrainCfg",
    "MeshStarTerrainCfg",
    "ParkourGapsTerrainCfg",
    "ParkourHurdlesTerrainCfg",
    "ParkourStepsTerrainCfg",
    "ParkourTerrainCfg",
    "RepeatedObjectCfg",
    "RoundObjectCfg",
    "SubTerrainCfg",
    "Terrain",
    "TerrainCfg",
    "TerrainGeneratorCfg",
    "rough_terrains",
]
