"""What Isaac Lab 2.3's bipeds, G1, H1 and Cassie, have in common beyond the velocity task."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.variants import full_terrains, on_rough_ground, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    CommandsCfg,
    EventsCfg,
    RewardsCfg,
    TerminationsCfg,
    VelocityEnvCfg,
    base_contact,
    external_wrench,
    in_contact,
    reset_base,
    reset_joints,
    tracking,
)

TORSO = "torso_link"


def joints(*names: str) -> SceneEntityCfg:
    """Select joints."""
    return SceneEntityCfg("robot", joint_names=list(names))


def deviation(weight: float, *names: str) -> RewardTermCfg:
    """Return the penalty on joints that walking does not need."""
    return reward(mdp.joint_deviation_l1, weight, asset_cfg=joints(*names))


def feet_air_time(weight: float, feet: str, threshold: float) -> RewardTermCfg:
    """Return the reward for standing on one foot at a time, for up to ``threshold`` s."""
    return reward(
        mdp.feet_air_time_positive_biped,
        weight,
        command_name="base_velocity",
        sensor_cfg=in_contact(feet),
        threshold=threshold,
    )


def feet_slide(weight: float, feet: str) -> RewardTermCfg:
    """Return the penalty on feet that slide while in contact."""
    return reward(
        mdp.feet_slide,
        weight,
        sensor_cfg=in_contact(feet),
        asset_cfg=SceneEntityCfg("robot", body_names=feet),
    )


def velocity_commands(**ranges: tuple[float, float]) -> CommandsCfg:
    """Return the command of a new velocity and heading every 10 s."""
    return CommandsCfg(
        base_velocity=mdp.UniformVelocityCommandCfg(
            resampling_time_range=(10.0, 10.0), ranges=mdp.VelocityRangesCfg(**ranges)
        )
    )


@dataclass(kw_only=True)
class BipedRewardsCfg(RewardsCfg):
    """Do not fall; what else a biped needs is its own."""

    undesired_contacts: RewardTermCfg | None = None
    termination_penalty: RewardTermCfg | None = default(reward(mdp.is_terminated, -200.0))
    feet_slide: RewardTermCfg | None = None
    joint_deviation_hip: RewardTermCfg | None = None
    joint_deviation_arms: RewardTermCfg | None = None
    joint_deviation_fingers: RewardTermCfg | None = None
    joint_deviation_torso: RewardTermCfg | None = None
    joint_deviation_toes: RewardTermCfg | None = None


def upright_rewards(**others: RewardTermCfg | None) -> BipedRewardsCfg:
    """Return the rewards of H1 and G1: the command counts in the frame that turns with the yaw."""
    terms: dict[str, RewardTermCfg | None] = {
        "track_lin_vel_xy_exp": tracking(mdp.track_lin_vel_xy_yaw_frame_exp, 1.0),
        "track_ang_vel_z_exp": tracking(mdp.track_ang_vel_z_world_exp, 1.0),
        "action_rate_l2": reward(mdp.action_rate_l2, -0.005),
        "flat_orientation_l2": reward(mdp.flat_orientation_l2, -1.0),
    }
    return BipedRewardsCfg(**(terms | others))


def calm_events(base: str, **joint_reset: float) -> EventsCfg:
    """Return the events of bipeds: only friction differs, and all start at rest, in one pose.

    Args:
        base: The body on which a lasting push would act.
        joint_reset: More of :func:`mdp.reset_joints_by_scale`.
    """
    return EventsCfg(
        add_base_mass=None,
        base_com=None,
        base_external_force_torque=external_wrench(base),
        reset_base=reset_base(0.0),
        reset_robot_joints=reset_joints(1.0, 1.0, **joint_reset),
        push_robot=None,
    )


def biped(model: str, rewards: BipedRewardsCfg, base: str = TORSO) -> VelocityEnvCfg:
    """Return a biped's task on any ground.

    Args:
        model: The robot.
        rewards: Its rewards.
        base: The body that must not touch the ground.
    """
    return VelocityEnvCfg(
        sim=SimulationCfg(
            dt=0.005,
            data_fields=(
                *("sensordata", "actuator_force"),
                *("cvel", "xipos", "subtree_com"),  # how fast feet slide
            ),
            substep_fields=("qvel",),
            model_fields=("geom_friction",),
        ),
        scene=SceneCfg(num_envs=4096, model=model),
        events=calm_events(base),
        rewards=rewards,
        terminations=TerminationsCfg(base_contact=base_contact(base)),
    )


def humanoid(model: str, rewards: BipedRewardsCfg) -> VelocityEnvCfg:
    """Return H1's or G1's task on any ground: forward and turning."""
    cfg = biped(model, rewards)
    cfg.commands = velocity_commands(lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 0.0))
    return cfg


def humanoid_on_rough_ground(cfg: VelocityEnvCfg) -> VelocityEnvCfg:
    """Put a humanoid on rough ground, with a scan around its torso."""
    cfg.sim.data_fields += ("xpos", "xquat")  # where the torso is
    return on_rough_ground(cfg, full_terrains(), mdp.RayCasterCfg(body_name=TORSO))


def straight_on(cfg: VelocityEnvCfg) -> VelocityEnvCfg:
    """Let few humanoids walk straight on over few tiles for 40 s."""
    cfg.episode_length_s = 40.0
    cfg.commands = velocity_commands(lin_vel_x=(1.0, 1.0), lin_vel_y=(0.0, 0.0), heading=(0.0, 0.0))
    return to_play(cfg)
