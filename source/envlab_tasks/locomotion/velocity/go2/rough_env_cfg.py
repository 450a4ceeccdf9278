"""Isaac-Velocity-Rough-Unitree-Go2-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, UniformNoiseCfg, default, mdp
from envlab.envs.managers import CurriculumTermCfg, EventTermCfg, ObservationTermCfg
from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    MeshRandomGridTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
    rough_terrains,
)
from envlab_tasks.locomotion.velocity.go2.base_env_cfg import MODEL, Go2EnvCfg, Go2EventsCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    EventsCfg,
    ObservationsCfg,
    PolicyCfg,
)


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


def few_tiles() -> TerrainGeneratorCfg:
    """Return 5 x 5 tiles of all kinds and difficulties, mixed."""
    generator = go2_terrains()
    generator.num_rows = generator.num_cols = 5
    generator.curriculum = False
    return generator


@dataclass(kw_only=True)
class RoughPolicyCfg(PolicyCfg):
    """What the robot feels, and the ground's height at 187 points around it."""

    height_scan: ObservationTermCfg = default(
        ObservationTermCfg(
            func=mdp.height_scan,
            params={"sensor_cfg": mdp.RayCasterCfg()},
            noise=UniformNoiseCfg(n_min=-0.1, n_max=0.1),
            clip=(-1.0, 1.0),
        )
    )


@dataclass(kw_only=True)
class RoughObservationsCfg(ObservationsCfg):
    """One group."""

    policy: PolicyCfg = field(default_factory=RoughPolicyCfg)


@dataclass(kw_only=True)
class CurriculumCfg:
    """Who walks far gets harder ground."""

    terrain_levels: CurriculumTermCfg | None = default(
        CurriculumTermCfg(func=mdp.terrain_levels_vel)
    )


@dataclass(kw_only=True)
class Go2RoughEnvCfg(Go2EnvCfg):
    """Go2 on stairs, blocks, noise and slopes."""

    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model=MODEL, terrain=TerrainCfg(terrain_generator=go2_terrains()))
    )
    observations: ObservationsCfg = field(default_factory=RoughObservationsCfg)
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)


@dataclass(kw_only=True)
class PlayPolicyCfg(RoughPolicyCfg):
    """The same without noise."""

    enable_corruption: bool = False


@dataclass(kw_only=True)
class PlayObservationsCfg(ObservationsCfg):
    """One group, without noise."""

    policy: PolicyCfg = field(default_factory=PlayPolicyCfg)


@dataclass(kw_only=True)
class PlayEventsCfg(Go2EventsCfg):
    """Nothing pushes."""

    base_external_force_torque: EventTermCfg | None = None


@dataclass(kw_only=True)
class Go2RoughPlayEnvCfg(Go2RoughEnvCfg):
    """Few robots on few tiles of any difficulty, no noise, no pushes, no curriculum."""

    scene: SceneCfg = default(
        SceneCfg(
            num_envs=50,
            model=MODEL,
            terrain=TerrainCfg(max_init_terrain_level=None, terrain_generator=few_tiles()),
        )
    )
    observations: ObservationsCfg = field(default_factory=PlayObservationsCfg)
    events: EventsCfg = field(default_factory=PlayEventsCfg)
    curriculum: CurriculumCfg | None = None
