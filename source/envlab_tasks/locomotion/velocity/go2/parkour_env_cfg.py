"""Envlab-Velocity-Parkour{,-Blind,-Depth}-Unitree-Go2-v0: gaps, hurdles and steps across the way.

Robots start in the middle of a tile, with the command to walk along x, over two obstacles, to its
end. Robots that arrive have succeeded, and start on a harder tile next. Obstacles are those of two
papers on parkour, see :mod:`envlab.envs.terrain.parkour`; rewards and all else are those of
Isaac-Velocity-Rough-Unitree-Go2-v0, so that students of both have the same network.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default, mdp
from envlab.envs.managers import EventTermCfg, SuccessTermCfg
from envlab.envs.terms import at_reset
from envlab.envs.terrain import (
    ParkourGapsTerrainCfg,
    ParkourHurdlesTerrainCfg,
    ParkourStepsTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from envlab_tasks.locomotion.velocity.go2.base_env_cfg import MODEL
from envlab_tasks.locomotion.velocity.go2.blind_env_cfg import RoughTeacherCfg
from envlab_tasks.locomotion.velocity.go2.depth_env_cfg import (
    DepthObservationsCfg,
    DepthSensorsCfg,
)
from envlab_tasks.locomotion.velocity.go2.rough_env_cfg import Go2RoughEnvCfg
from envlab_tasks.locomotion.velocity.small_quadruped_env_cfg import SmallEventsCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    CommandsCfg,
    EventsCfg,
    ObservationsCfg,
)


def courses() -> TerrainCfg:
    """Return ten levels of the three kinds of course, starting at the easiest ones."""
    return TerrainCfg(
        max_init_terrain_level=1,
        terrain_generator=TerrainGeneratorCfg(
            curriculum=True,
            num_cols=12,
            sub_terrains={
                "gaps": ParkourGapsTerrainCfg(),
                "hurdles": ParkourHurdlesTerrainCfg(),
                "steps": ParkourStepsTerrainCfg(),
            },
        ),
    )


def along_the_course() -> CommandsCfg:
    """Return the command of 0.5 to 1 m/s along the world's x."""
    ranges = mdp.VelocityRangesCfg(lin_vel_x=(0.5, 1.0), lin_vel_y=(0.0, 0.0), heading=(0.0, 0.0))
    return CommandsCfg(
        base_velocity=mdp.UniformVelocityCommandCfg(
            resampling_time_range=(10.0, 10.0), rel_standing_envs=0.0, ranges=ranges
        )
    )


@dataclass(kw_only=True)
class ParkourEventsCfg(SmallEventsCfg):
    """Episodes start in the middle of the platform, nearly facing along the course."""

    reset_base: EventTermCfg | None = default(
        at_reset(
            mdp.reset_root_state_uniform,
            pose_range={"x": (-0.3, 0.3), "y": (-1.0, 1.0), "yaw": (-0.3, 0.3)},
            velocity_range={},
        )
    )


@dataclass(kw_only=True)
class Go2ParkourEnvCfg(Go2RoughEnvCfg):
    """Go2 on courses of parkour, with a scan of the ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL, terrain=courses()))
    commands: CommandsCfg = default(along_the_course())
    events: EventsCfg = field(default_factory=ParkourEventsCfg)
    success: SuccessTermCfg | None = default(SuccessTermCfg(func=mdp.crossed_tile))


@dataclass(kw_only=True)
class Go2ParkourBlindEnvCfg(Go2ParkourEnvCfg):
    """The same task with its own sensors alone."""

    observations: ObservationsCfg = field(default_factory=RoughTeacherCfg)


@dataclass(kw_only=True)
class Go2ParkourDepthEnvCfg(Go2ParkourEnvCfg):
    """The same task with a depth camera."""

    scene: SceneCfg = default(SceneCfg(num_envs=192, model=MODEL, terrain=courses()))
    observations: DepthObservationsCfg = field(default_factory=DepthObservationsCfg)
    sensors: DepthSensorsCfg = field(default_factory=DepthSensorsCfg)
