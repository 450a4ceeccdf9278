"""Mjlab-Velocity-Rough-Unitree-Go1. The numbers are mjlab 1.6.0's.

Differs from mjlab 1.6.0:

- The trunk is to be upright to a least-squares plane through 54 heights; mjlab's plane minimises
  the distances to 32 points.
- Of a body's contacts with the ground, the strongest counts; in mjlab, the first of each geom.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import RewardTermCfg, TerminationTermCfg
from envlab.envs.terms import reward, termination
from envlab.envs.terrain import TerrainCfg
from envlab_assets.robots.go1 import MJLAB_MODEL
from envlab_tasks.locomotion.velocity.go1.mjlab_base_env_cfg import (
    FOOT_SENSOR,
    NO_PUSHES,
    Go1EnvCfg,
    Go1RewardsCfg,
)
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    CurriculumCfg,
    EventsCfg,
    ObservationsCfg,
    RewardsCfg,
    SensorsCfg,
    TerminationsCfg,
    sensors,
    simulation,
    upright,
)
from envlab_tasks.locomotion.velocity.mjlab_rough_ground import (
    NO_NOISE,
    RoughCurriculumCfg,
    RoughObservationsCfg,
    RoughTerminationsCfg,
    play_terrain,
    rough_terrains,
)


def hitting(*names: str) -> RewardTermCfg:
    """Return the penalty on collisions of more than 10 N that sensors of the model measure."""
    return reward(mdp.self_collision_cost, -0.1, force_threshold=10.0, asset_cfg=sensors(*names))


@dataclass(kw_only=True)
class Go1RoughSensorsCfg(SensorsCfg):
    """The feet, the scan, and points at which the ground's slope is measured."""

    feet: mdp.FootSensorCfg = default(FOOT_SENSOR)
    terrain_scan: mdp.RayCasterCfg | None = default(mdp.RayCasterCfg())
    slope: mdp.RayCasterCfg = default(
        mdp.RayCasterCfg(pattern_cfg=mdp.GridPatternCfg(resolution=0.2))
    )


@dataclass(kw_only=True)
class RoughRewardsCfg(Go1RewardsCfg):
    """Upright against the ground's slope, and only feet touch."""

    upright: RewardTermCfg | None = default(upright("trunk", sensor_cfg=SceneEntityCfg("slope")))
    self_collisions: RewardTermCfg | None = default(hitting("self_collision"))
    shank_collision: RewardTermCfg | None = default(hitting(".*_calf_ground"))
    trunk_head_collision: RewardTermCfg | None = default(hitting("trunk_ground"))


@dataclass(kw_only=True)
class Go1RoughTerminationsCfg(RoughTerminationsCfg):
    """The time is up, the ground ends, or a thigh hits the ground; slopes tilt the robot."""

    fell_over: TerminationTermCfg | None = None
    illegal_contact: TerminationTermCfg | None = default(
        termination(
            mdp.illegal_collision, force_threshold=10.0, asset_cfg=sensors(".*_thigh_ground")
        )
    )


ENDLESS_GROUND = Go1RoughTerminationsCfg(out_of_terrain_bounds=None)


@dataclass(kw_only=True)
class Go1RoughEnvCfg(Go1EnvCfg):
    """Go1 on stairs, slopes, waves and noise."""

    sim: SimulationCfg = default(simulation(70, 1500))
    scene: SceneCfg = default(
        SceneCfg(
            num_envs=4096,
            model=MJLAB_MODEL,
            terrain=TerrainCfg(terrain_generator=rough_terrains()),
        )
    )
    observations: ObservationsCfg = field(default_factory=RoughObservationsCfg)
    sensors: SensorsCfg = field(default_factory=Go1RoughSensorsCfg)
    rewards: RewardsCfg = field(default_factory=RoughRewardsCfg)
    terminations: TerminationsCfg = field(default_factory=Go1RoughTerminationsCfg)
    curriculum: CurriculumCfg | None = field(default_factory=RoughCurriculumCfg)


@dataclass(kw_only=True)
class Go1RoughPlayEnvCfg(Go1RoughEnvCfg):
    """Few robots on few tiles of any difficulty, no noise, no pushes, no curriculum."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MJLAB_MODEL, terrain=play_terrain()))
    observations: ObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
    terminations: TerminationsCfg = default(ENDLESS_GROUND)
    curriculum: CurriculumCfg | None = None
