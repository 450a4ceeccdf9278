"""The hopper on generated ground that is small enough to know by heart."""

from __future__ import annotations

from typing import Any

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.envs.terms import at_reset, termination
from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from tests.envs import hopper
from tests.envs.sliders import terms

STAIRS = MeshPyramidStairsTerrainCfg(
    step_height_range=(0.1, 0.3), step_width=0.4, platform_width=2.0, border_width=1.0
)
NOISE = HfRandomUniformTerrainCfg(noise_range=(0.0, 0.1), noise_step=0.02, border_width=0.5)
NUM_ROWS, NUM_COLS = 4, 2
"""Levels, and columns: of stairs the first, of noise the second. Tiles are 6 x 6 m."""


def terrain(**changes: Any) -> TerrainCfg:
    """Return ground of 4 x 2 tiles; stairs have three steps, of 0.1 to 0.3 m."""
    kinds = {"stairs": STAIRS, "noise": NOISE}
    tiles = {"size": (6.0, 6.0), "num_rows": NUM_ROWS, "num_cols": NUM_COLS, "sub_terrains": kinds}
    generator = TerrainGeneratorCfg(curriculum=True, border_width=5.0, **tiles)
    return TerrainCfg(**({"max_init_terrain_level": 2, "terrain_generator": generator} | changes))


def make_env(
    num_envs: int = 4, *, ground: TerrainCfg | None = None, plane: bool = False, **fields: Any
) -> ManagerEnv:
    """Return an environment with episodes of 10 steps that start at its origins."""
    start = at_reset(mdp.reset_root_state_uniform, pose_range={}, velocity_range={})
    defaults: dict[str, Any] = {
        "episode_length_s": 0.1,
        "events": terms(start=start),
        "terminations": terms(time_out=termination(mdp.time_out, time_out=True)),
        "sensors": None,
    }
    found = None if plane else ground or terrain()
    scene = SceneCfg(num_envs=num_envs, model=hopper.MODEL, terrain=found)
    return hopper.make_env(num_envs, scene=scene, **(defaults | fields))
