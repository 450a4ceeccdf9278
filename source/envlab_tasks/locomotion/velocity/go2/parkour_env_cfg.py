"""Envlab-Velocity-Parkour{,-Blind,-Depth}-Unitree-Go2-v0: gaps, hurdles and steps across the way.

Robots start in the middle of a tile, with the command to walk along x, over two obstacles, to its
end. Robots that arrive have succeeded, and start on a harder tile next. Obstacles are those of two
papers on parkour, see :mod:`envlab.envs.terrain.obstacles`; rewards and all else are those of
Isaac-Velocity-Rough-Unitree-Go2-v0, so that students of both have the same network.
"""

from __future__ import annotations

from envlab.envs import mdp
from envlab.envs.managers import SuccessTermCfg
from envlab.envs.terms import at_reset
from envlab.envs.terrain import (
    ParkourGapsTerrainCfg,
    ParkourHurdlesTerrainCfg,
    ParkourStepsTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from envlab_tasks.locomotion.velocity.go2 import blind_env_cfg, env_cfg
from envlab_tasks.locomotion.velocity.go2.depth_env_cfg import with_camera
from envlab_tasks.locomotion.velocity.velocity_env_cfg import CommandsCfg, VelocityEnvCfg


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


def parkour() -> VelocityEnvCfg:
    """Return Go2 on the courses, with a scan of the ground.

    Episodes start in the middle of the platform, nearly facing along the course.
    """
    cfg = env_cfg.rough()
    cfg.scene.terrain = courses()
    cfg.commands = along_the_course()
    cfg.events.reset_base = at_reset(
        mdp.reset_root_state_uniform,
        pose_range={"x": (-0.3, 0.3), "y": (-1.0, 1.0), "yaw": (-0.3, 0.3)},
        velocity_range={},
    )
    cfg.success = SuccessTermCfg(func=mdp.crossed_tile)
    return cfg


def blind() -> VelocityEnvCfg:
    """Return the same task with its own sensors alone."""
    return blind_env_cfg.blind(parkour())


def depth() -> VelocityEnvCfg:
    """Return the same task with a depth camera."""
    return with_camera(parkour())
