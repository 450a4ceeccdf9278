"""Velocity tasks of the G1 with 29 joints. The numbers are mjlab 1.6.0's.

Differs from mjlab 1.6.0:

- On flat ground some episodes may begin in mid-walk (``events.start_in_motion``); by default, none
  does.
"""

from __future__ import annotations

from envlab.envs import SceneCfg, SceneEntityCfg, mdp
from envlab.envs.terms import at_reset, at_startup, reward
from envlab_assets.robots.g1_29 import ACTION_SCALE, MODEL, SOLES
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    EventsCfg,
    MjlabVelocityEnvCfg,
    RewardsCfg,
    SensorsCfg,
    balance,
    body,
    posture,
    sensors,
    upright,
)
from envlab_tasks.locomotion.velocity.mjlab_variants import on_rough_ground, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import scaled_actions

TORSO = "torso_link"
WALKING = {
    ".*_hip_pitch_joint": 0.3,
    ".*_hip_(roll|yaw)_joint": 0.15,
    ".*_knee_joint": 0.35,
    ".*_ankle_pitch_joint": 0.25,
    ".*_ankle_roll_joint": 0.1,
    "waist_yaw_joint": 0.2,
    "waist_roll_joint": 0.08,
    "waist_pitch_joint": 0.1,
    ".*_shoulder_(pitch|roll)_joint": 0.15,
    ".*_shoulder_yaw_joint": 0.1,
    ".*_elbow_joint": 0.15,
    ".*_wrist_.*": 0.3,
}
RUNNING = {
    ".*_hip_pitch_joint": 0.5,
    ".*_hip_(roll|yaw)_joint": 0.2,
    ".*_knee_joint": 0.6,
    ".*_ankle_pitch_joint": 0.35,
    ".*_ankle_roll_joint": 0.15,
    "waist_yaw_joint": 0.3,
    "waist_roll_joint": 0.08,
    "waist_pitch_joint": 0.2,
    ".*_shoulder_pitch_joint": 0.5,
    ".*_shoulder_roll_joint": 0.2,
    ".*_shoulder_yaw_joint": 0.15,
    ".*_elbow_joint": 0.35,
    ".*_wrist_.*": 0.3,
}


def g1() -> MjlabVelocityEnvCfg:
    """Return the task on any ground: the torso stays upright and calm, limbs hit nothing."""
    return MjlabVelocityEnvCfg(
        scene=SceneCfg(num_envs=4096, model=MODEL),
        actions=scaled_actions(ACTION_SCALE),
        events=EventsCfg(
            foot_friction=at_startup(
                mdp.randomize_rigid_body_material,
                asset_cfg=SceneEntityCfg("robot", geom_names=SOLES),
                friction_range=(0.3, 1.2),
            ),
            base_com=balance(TORSO),
        ),
        rewards=RewardsCfg(
            upright=upright(TORSO),
            pose=posture({".*": 0.05}, WALKING, RUNNING),
            body_ang_vel=reward(mdp.body_angular_velocity_penalty, -0.05, asset_cfg=body(TORSO)),
            angular_momentum=reward(
                mdp.angular_momentum_penalty, -0.02, asset_cfg=sensors("root_angmom")
            ),
            self_collisions=reward(
                mdp.self_collision_cost,
                -1.0,
                force_threshold=10.0,
                asset_cfg=sensors("self_collision"),
            ),
        ),
        sensors=SensorsCfg(
            feet=mdp.FootSensorCfg(
                site_names=["left_foot", "right_foot"], ring_radius_m=0.03, num_ring_samples=6
            )
        ),
    )


def flat() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Flat-Unitree-G1."""
    cfg = g1()
    cfg.events.start_in_motion = at_reset(
        mdp.reset_to_motion_frame, motion_file="envlab_assets:motions/g1_walk.npz", share=0.0
    )
    return cfg


def flat_play() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Flat-Unitree-G1-Play."""
    return to_play(flat())


def rough() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Rough-Unitree-G1."""
    return on_rough_ground(g1())


def rough_play() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Rough-Unitree-G1-Play."""
    return to_play(rough())
