"""Changes of Go1 and Go2, Unitree's small quadrupeds, to :class:`VelocityEnvCfg`: Isaac Lab 2.3's.

The numbers are the same for both; a robot names its base.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab.envs.terms import reward
from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    MeshRandomGridTerrainCfg,
    TerrainGeneratorCfg,
    rough_terrains,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    ActionsCfg,
    EventsCfg,
    RewardsCfg,
    VelocityEnvCfg,
    base_mass,
    feet_air_time,
    reset_base,
    reset_joints,
    scaled_actions,
    tracking,
)


def small_terrains() -> TerrainGeneratorCfg:
    """Return ``ROUGH_TERRAINS_CFG`` with lower blocks and noise, as the robots are small."""
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
class SmallEventsCfg(EventsCfg):
    """The base weighs 1 kg less to 3 kg more; episodes start at rest in the default pose."""

    add_base_mass: EventTermCfg | None = default(base_mass("base", -1.0, 3.0))
    base_com: EventTermCfg | None = None
    reset_base: EventTermCfg | None = default(reset_base(0.0))
    reset_robot_joints: EventTermCfg | None = default(reset_joints(1.0, 1.0))
    push_robot: EventTermCfg | None = None


@dataclass(kw_only=True)
class SmallRewardsCfg(RewardsCfg):
    """Following the command and torques count more."""

    track_lin_vel_xy_exp: RewardTermCfg | None = default(tracking(mdp.track_lin_vel_xy_exp, 1.5))
    track_ang_vel_z_exp: RewardTermCfg | None = default(tracking(mdp.track_ang_vel_z_exp, 0.75))
    dof_torques_l2: RewardTermCfg | None = default(reward(mdp.joint_torques_l2, -2.0e-4))
    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.01))
    undesired_contacts: RewardTermCfg | None = None


@dataclass(kw_only=True)
class SmallFlatRewardsCfg(SmallRewardsCfg):
    """On flat ground the base is to be level, and steps are to be long."""

    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.25))
    flat_orientation_l2: RewardTermCfg | None = default(reward(mdp.flat_orientation_l2, -2.5))


@dataclass(kw_only=True)
class SmallQuadrupedEnvCfg(VelocityEnvCfg):
    """A small quadruped on any ground."""

    actions: ActionsCfg = default(scaled_actions(0.25))
    events: EventsCfg = field(default_factory=SmallEventsCfg)
    rewards: RewardsCfg = field(default_factory=SmallRewardsCfg)
