"""A biped's task on rough ground, except the scene, which is the robot's: Isaac Lab 2.3's.

Among a configuration's bases, these classes come before the robot's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SimulationCfg, default, mdp
from envlab_tasks.locomotion.velocity.biped_env_cfg import (
    NO_PUSHES,
    TORSO,
    biped_sim,
    velocity_commands,
)
from envlab_tasks.locomotion.velocity.rough_ground import CurriculumCfg, rough_observations
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    CommandsCfg,
    EventsCfg,
    ObservationsCfg,
    SensorsCfg,
)


@dataclass(kw_only=True)
class RoughGroundCfg:
    """A scan around the torso, and a curriculum."""

    sim: SimulationCfg = default(biped_sim("xpos", "xquat"))  # where the torso is
    observations: ObservationsCfg = default(rough_observations())
    sensors: SensorsCfg = default(SensorsCfg(height_scanner=mdp.RayCasterCfg(body_name=TORSO)))
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)


@dataclass(kw_only=True)
class PlayRoughGroundCfg:
    """Robots walk straight on for 40 s, without noise, pushes and curriculum."""

    episode_length_s: float = 40.0
    observations: ObservationsCfg = default(rough_observations(noise=False))
    commands: CommandsCfg = default(
        velocity_commands(lin_vel_x=(1.0, 1.0), lin_vel_y=(0.0, 0.0), heading=(0.0, 0.0))
    )
    events: EventsCfg = default(NO_PUSHES)
    curriculum: CurriculumCfg | None = None
