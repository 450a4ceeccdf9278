"""Isaac-Velocity-Rough-Unitree-Go1-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default
from envlab.envs.terrain import TerrainCfg
from envlab_assets.robots.go1 import MODEL
from envlab_tasks.locomotion.velocity.go1.base_env_cfg import NO_PUSHES, Go1EnvCfg
from envlab_tasks.locomotion.velocity.rough_ground import (
    SCANNING,
    CurriculumCfg,
    few_tiles,
    rough_observations,
)
from envlab_tasks.locomotion.velocity.small_quadruped_env_cfg import small_terrains
from envlab_tasks.locomotion.velocity.velocity_env_cfg import EventsCfg, ObservationsCfg, SensorsCfg


@dataclass(kw_only=True)
class Go1RoughEnvCfg(Go1EnvCfg):
    """Go1 on stairs, blocks, noise and slopes."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model=MODEL, terrain=TerrainCfg(terrain_generator=small_terrains()))
    )
    observations: ObservationsCfg = default(rough_observations())
    sensors: SensorsCfg = default(SCANNING)
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)


@dataclass(kw_only=True)
class Go1RoughPlayEnvCfg(Go1RoughEnvCfg):
    """Few robots on few tiles of any difficulty, no noise, no pushes, no curriculum."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=50, model=MODEL, terrain=few_tiles(small_terrains()))
    )
    observations: ObservationsCfg = default(rough_observations(noise=False))
    events: EventsCfg = default(NO_PUSHES)
    curriculum: CurriculumCfg | None = None
