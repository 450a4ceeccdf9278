"""Changes of the 29-joint G1 to :class:`MjlabVelocityEnvCfg`, on any ground; mjlab 1.6.0's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab.envs.terms import at_startup, reward
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
from envlab_tasks.locomotion.velocity.velocity_env_cfg import ActionsCfg, scaled_actions

FOOT_SENSOR = mdp.FootSensorCfg(
    site_names=["left_foot", "right_foot"], ring_radius_m=0.03, num_ring_samples=6
)
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


@dataclass(kw_only=True)
class G1EventsCfg(EventsCfg):
    """Soles slip more or less, and the torso is heavier on one side."""

    foot_friction: EventTermCfg | None = default(
        at_startup(
            mdp.randomize_rigid_body_material,
            asset_cfg=SceneEntityCfg("robot", geom_names=SOLES),
            friction_range=(0.3, 1.2),
        )
    )
    base_com: EventTermCfg | None = default(balance(TORSO))


NO_PUSHES = G1EventsCfg(push_robot=None)


@dataclass(kw_only=True)
class G1RewardsCfg(RewardsCfg):
    """The torso stays upright and calm, and limbs do not hit each other."""

    upright: RewardTermCfg | None = default(upright(TORSO))
    pose: RewardTermCfg | None = default(posture({".*": 0.05}, WALKING, RUNNING))
    body_ang_vel: RewardTermCfg | None = default(
        reward(mdp.body_angular_velocity_penalty, -0.05, asset_cfg=body(TORSO))
    )
    angular_momentum: RewardTermCfg | None = default(
        reward(mdp.angular_momentum_penalty, -0.02, asset_cfg=sensors("root_angmom"))
    )
    self_collisions: RewardTermCfg | None = default(
        reward(
            mdp.self_collision_cost, -1.0, force_threshold=10.0, asset_cfg=sensors("self_collision")
        )
    )


@dataclass(kw_only=True)
class G1EnvCfg(MjlabVelocityEnvCfg):
    """G1 on any ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    actions: ActionsCfg = default(scaled_actions(ACTION_SCALE))
    events: EventsCfg = field(default_factory=G1EventsCfg)
    rewards: RewardsCfg = field(default_factory=G1RewardsCfg)
    sensors: SensorsCfg = default(SensorsCfg(feet=FOOT_SENSOR))
