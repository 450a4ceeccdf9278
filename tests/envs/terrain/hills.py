"""The hopper on generated ground that is small enough to know by heart."""

from __future__ import annotations

from typing import Any

from envlab.envs import ManagerEnv, ManagerEnvCfg, SceneCfg, SimulationCfg, mdp
from envlab.envs.managers import EventTermCfg, ObservationTermCfg, TerminationTermCfg
from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from tests.envs.hopper import MODEL
from tests.envs.sliders import group, rank, terms

STAIRS = MeshPyramidStairsTerrainCfg(
    step_height_range=(0.1, 0.3), step_width=0.4, platform_width=2.0, border_width=1.0
)
NOISE = HfRandomUniformTerrainCfg(noise_range=(0.0, 0.1), noise_step=0.02, border_width=0.5)
NUM_ROWS, NUM_COLS = 4, 2
"""Levels, and columns: of stairs the first, of noise the second. Tiles are 6 x 6 m."""


def terrain(**changes: Any) -> TerrainCfg:
    """Return ground of 4 x 2 tiles; stairs have three steps, of 0.1 to 0.3 m."""
    generator = TerrainGeneratorCfg(
        curriculum=True,
        size=(6.0, 6.0),
        border_width=5.0,
        num_rows=NUM_ROWS,
        num_cols=NUM_COLS,
        sub_terrains={"stairs": STAIRS, "noise": NOISE},
    )
    return TerrainCfg(**({"max_init_terrain_level": 2, "terrain_generator": generator} | changes))


def make_env(
    num_envs: int = 4,
    *,
    ground: TerrainCfg | None = None,
    seed: int = 0,
    index: int = 0,
    world_size: int = 1,
    plane: bool = False,
    **fields: Any,
) -> ManagerEnv:
    """Return an environment with episodes of 10 steps that start at its origins."""
    start = EventTermCfg(
        func=mdp.reset_root_state_uniform,
        mode="reset",
        params={"pose_range": {}, "velocity_range": {}},
    )
    defaults: dict[str, Any] = {
        "episode_length_s": 0.1,
        "observations": terms(policy=group(pos=ObservationTermCfg(func=mdp.joint_pos))),
        "actions": terms(arm=mdp.JointPositionActionCfg(joint_names="arm")),
        "events": terms(start=start),
        "terminations": terms(time_out=TerminationTermCfg(func=mdp.time_out, time_out=True)),
    }
    scene = SceneCfg(num_envs=num_envs, model=MODEL, terrain=ground or terrain())
    if plane:
        scene.terrain = None
    cfg = ManagerEnvCfg(sim=SimulationCfg(dt=0.01), scene=scene, **(defaults | fields))
    return ManagerEnv(cfg, context=rank(index, world_size), seed=seed)
