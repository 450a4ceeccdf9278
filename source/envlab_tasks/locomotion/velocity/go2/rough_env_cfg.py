"""Isaac-Velocity-Rough-Unitree-Go2-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default
from envlab.envs.managers import EventTermCfg
from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    MeshRandomGridTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
    rough_terrains,
)
from envlab_tasks.locomotion.velocity.go2.base_env_cfg import MODEL, Go2EnvCfg, Go2EventsCfg
from envlab_tasks.locomotion.velocity.rough_ground import (
    CurriculumCfg,
    few_tiles,
    rough_observations,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import EventsCfg, ObservationsCfg


def go2_terrains() -> TerrainGeneratorCfg:
    """Return ``ROUGH_TERRAINS_CFG`` with lower blocks and noise, as the robot is small."""
    generator = rough_terrains()
    generator.curriculum = True
    generator.sub_terrains["boxes"] = MeshRandomGridTerrainCfg(
        proportion=0.2, grid_width=0.45, grid_height_range=(0.025, 0.1), platform_width=2.0
    )
    generator.sub_terrains["random_rough"] = HfRandomUniformTerrainCfg(
        proportion=0.2, noise_range=(0.01, 0.06), noise_step=0.01, border_width=0.25
    )
    return generator


@dataclass(kw_only=True)
class Go2RoughEnvCfg(Go2EnvCfg):
    """Go2 on stairs, blocks, noise and slopes."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model=MODEL, terrain=TerrainCfg(terrain_generator=go2_terrains()))
    )
    observations: ObservationsCfg = default(rough_observations())
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)


@dataclass(kw_only=True)
class PlayEventsCfg(Go2EventsCfg):
    """Nothing pushes."""

    base_external_force_torque: EventTermCfg | None = None


@dataclass(kw_only=True)
class Go2RoughPlayEnvCfg(Go2RoughEnvCfg):
    """Few robots on few tiles of any difficulty, no noise, no pushes, no curriculum."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL, terrain=few_tiles(go2_terrains())))
    observations: ObservationsCfg = default(rough_observations(noise=False))
    events: EventsCfg = field(default_factory=PlayEventsCfg)
    curriculum: CurriculumCfg | None = None
