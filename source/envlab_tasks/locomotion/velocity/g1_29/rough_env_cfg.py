"""Mjlab-Velocity-Rough-Unitree-G1. The numbers are mjlab 1.6.0's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SimulationCfg, default, mdp
from envlab.envs.terrain import TerrainCfg
from envlab_assets.robots.g1_29 import MODEL
from envlab_tasks.locomotion.velocity.g1_29.base_env_cfg import FOOT_SENSOR, NO_PUSHES, G1EnvCfg
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    CurriculumCfg,
    EventsCfg,
    ObservationsCfg,
    SensorsCfg,
    TerminationsCfg,
    simulation,
)
from envlab_tasks.locomotion.velocity.mjlab_rough_ground import (
    NO_NOISE,
    RoughCurriculumCfg,
    RoughObservationsCfg,
    RoughTerminationsCfg,
    play_terrain,
    rough_terrains,
)


@dataclass(kw_only=True)
class G1RoughEnvCfg(G1EnvCfg):
    """G1 on stairs, slopes, waves and noise."""

    sim: SimulationCfg = default(simulation(70, 1500))
    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model=MODEL, terrain=TerrainCfg(terrain_generator=rough_terrains()))
    )
    observations: ObservationsCfg = field(default_factory=RoughObservationsCfg)
    sensors: SensorsCfg = default(SensorsCfg(feet=FOOT_SENSOR, terrain_scan=mdp.RayCasterCfg()))
    terminations: TerminationsCfg = field(default_factory=RoughTerminationsCfg)
    curriculum: CurriculumCfg | None = field(default_factory=RoughCurriculumCfg)


@dataclass(kw_only=True)
class G1RoughPlayEnvCfg(G1RoughEnvCfg):
    """Few robots on few tiles of any difficulty, no noise, no pushes, no curriculum."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL, terrain=play_terrain()))
    observations: ObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    curriculum: CurriculumCfg | None = None
