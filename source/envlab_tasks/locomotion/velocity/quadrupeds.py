"""Isaac Lab 2.3's quadrupeds: what ANYmal B, C and D have in common, and A1, Go1 and Go2."""

from __future__ import annotations

from envlab.envs import SceneCfg, mdp
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    EventsCfg,
    RewardsCfg,
    TerminationsCfg,
    VelocityEnvCfg,
    base_contact,
    base_mass,
    external_wrench,
    feet_air_time,
    reset_base,
    reset_joints,
    scaled_actions,
    tracking,
    undesired_contacts,
)


def anymal(model: str) -> VelocityEnvCfg:
    """Return an ANYmal's task on any ground."""
    cfg = VelocityEnvCfg(
        scene=SceneCfg(num_envs=4096, model=model),
        rewards=RewardsCfg(
            feet_air_time=feet_air_time(0.125, ".*_FOOT"),
            undesired_contacts=undesired_contacts(".*_THIGH"),
        ),
    )
    cfg.sim.num_contacts_max, cfg.sim.num_constraints_max = 96, 384
    return cfg


def flat_anymal(model: str) -> VelocityEnvCfg:
    """Return an ANYmal's task on a plane: the base is to be level, and steps are to be long."""
    cfg = anymal(model)
    cfg.rewards.dof_torques_l2 = reward(mdp.joint_torques_l2, -2.5e-5)
    cfg.rewards.feet_air_time = feet_air_time(0.5, ".*_FOOT")
    cfg.rewards.flat_orientation_l2 = reward(mdp.flat_orientation_l2, -5.0)
    return cfg


def small(model: str, base: str = "base") -> VelocityEnvCfg:
    """Return the task of one of Unitree's small quadrupeds on any ground.

    Following the command counts more, the base weighs 1 kg less to 3 kg more, and episodes start at
    rest in the default pose.

    Args:
        model: The robot.
        base: The name of its base.
    """
    return VelocityEnvCfg(
        scene=SceneCfg(num_envs=4096, model=model),
        actions=scaled_actions(0.25),
        events=EventsCfg(
            add_base_mass=base_mass(base, -1.0, 3.0),
            base_com=None,
            base_external_force_torque=external_wrench(base),
            reset_base=reset_base(0.0),
            reset_robot_joints=reset_joints(1.0, 1.0),
            push_robot=None,
        ),
        rewards=RewardsCfg(
            track_lin_vel_xy_exp=tracking(mdp.track_lin_vel_xy_exp, 1.5),
            track_ang_vel_z_exp=tracking(mdp.track_ang_vel_z_exp, 0.75),
            dof_torques_l2=reward(mdp.joint_torques_l2, -2.0e-4),
            feet_air_time=feet_air_time(0.01),
            undesired_contacts=None,
        ),
        terminations=TerminationsCfg(base_contact=base_contact(base)),
    )


def flat_small(model: str, base: str = "base") -> VelocityEnvCfg:
    """Return the same on a plane: the base is to be level, and steps are to be long."""
    cfg = small(model, base)
    cfg.rewards.feet_air_time = feet_air_time(0.25)
    cfg.rewards.flat_orientation_l2 = reward(mdp.flat_orientation_l2, -2.5)
    return cfg
