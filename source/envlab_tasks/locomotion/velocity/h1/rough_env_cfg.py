"""Isaac-Velocity-Rough-H1-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SimulationCfg, default
from envlab.envs.terrain import TerrainCfg
from envlab_tasks.locomotion.velocity.biped_env_cfg import (
    NO_PUSHES,
    TORSO,
    StraightOnCommandsCfg,
    biped_sim,
)
from envlab_tasks.locomotion.velocity.h1.base_env_cfg import MODEL, H1EnvCfg
from envlab_tasks.locomotion.velocity.rough_ground import (
    CurriculumCfg,
    few_tiles,
    full_terrains,
    rough_observations,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    CommandsCfg,
    EventsCfg,
    ObservationsCfg,
)


@dataclass(kw_only=True)
class H1RoughEnvCfg(H1EnvCfg):
    """H1 on stairs, blocks, noise and slopes."""

    sim: SimulationCfg = default(biped_sim("xpos", "xquat"))  # where the torso is
    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model=MODEL, terrain=TerrainCfg(terrain_generator=full_terrains()))
    )
    observations: ObservationsCfg = default(rough_observations(TORSO))
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)


@dataclass(kw_only=True)
class H1RoughPlayEnvCfg(H1RoughEnvCfg):
    """Few robots that walk straight on over few tiles of any difficulty, for 40 s."""

    episode_length_s: float = 40.0
    scene: SceneCfg = default(
        SceneCfg(num_envs=50, model=MODEL, terrain=few_tiles(full_terrains()))
    )
    observations: ObservationsCfg = default(rough_observations(TORSO, noise=False))
    commands: CommandsCfg = field(default_factory=StraightOnCommandsCfg)
    events: EventsCfg = default(NO_PUSHES)
    curriculum: CurriculumCfg | None = None
