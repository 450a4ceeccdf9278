"""Isaac-Velocity-Rough-G1-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab.envs.terrain import TerrainCfg
from envlab_tasks.locomotion.velocity.biped_rough_ground import PlayRoughGroundCfg, RoughGroundCfg
from envlab_tasks.locomotion.velocity.g1.base_env_cfg import MODEL, NO_PUSHES, G1EnvCfg
from envlab_tasks.locomotion.velocity.rough_ground import few_tiles, full_terrains
from envlab_tasks.locomotion.velocity.velocity_env_cfg import EventsCfg


@dataclass(kw_only=True)
class G1RoughEnvCfg(RoughGroundCfg, G1EnvCfg):
    """G1 on stairs, blocks, noise and slopes."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model=MODEL, terrain=TerrainCfg(terrain_generator=full_terrains()))
    )


@dataclass(kw_only=True)
class G1RoughPlayEnvCfg(PlayRoughGroundCfg, G1RoughEnvCfg):
    """Few robots that walk straight on over few tiles of any difficulty, for 40 s."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=50, model=MODEL, terrain=few_tiles(full_terrains()))
    )
    events: EventsCfg = default(NO_PUSHES)
