"""Terms that tasks share, with Isaac Lab's names: short, pure functions over the batch."""

from envlab.envs.mdp.actions import (
    JointEffortActionCfg,
    JointPositionActionCfg,
    JointVelocityActionCfg,
)
from envlab.envs.mdp.binary_action import BinaryJointPositionActionCfg
from envlab.envs.mdp.commands import UniformCommandCfg
from envlab.envs.mdp.contacts import (
    feet_air_time,
    feet_air_time_positive_biped,
    feet_slide,
    illegal_contact,
    undesired_contacts,
)
from envlab.envs.mdp.curriculums import modify_reward_weight
from envlab.envs.mdp.differential_ik_action import DifferentialInverseKinematicsActionCfg, OffsetCfg
from envlab.envs.mdp.ema_action import EMAJointPositionToLimitsActionCfg
from envlab.envs.mdp.events import (
    randomize_rigid_body_mass,
    reset_joints_by_offset,
    reset_joints_by_scale,
    reset_root_state_uniform,
)
from envlab.envs.mdp.frames import base_pose, body_poses, site_orientations, site_positions
from envlab.envs.mdp.height_scan import GridPatternCfg, RayCasterCfg, height_scan
from envlab.envs.mdp.in_hand import (
    InHandReOrientationCommandCfg,
    goal_quat_diff,
    max_consecutive_success,
    object_away_from_robot,
    reset_joints_within_limits_range,
    success_bonus,
    track_orientation_inv_l2,
)
from envlab.envs.mdp.joints import (
    joint_acc_l2,
    joint_deviation_l1,
    joint_pos_limits,
    joint_torques_l2,
)
from envlab.envs.mdp.manipulation import (
    object_ee_distance,
    object_goal_distance,
    object_is_lifted,
    object_position_in_robot_root_frame,
)
from envlab.envs.mdp.observations import (
    generated_commands,
    joint_pos,
    joint_pos_limit_normalized,
    joint_pos_rel,
    joint_vel,
    joint_vel_rel,
    last_action,
    sensor,
)
from envlab.envs.mdp.pose_command import (
    PoseRangesCfg,
    UniformPoseCommandCfg,
    orientation_command_error,
    position_command_error,
    position_command_error_tanh,
)
from envlab.envs.mdp.pushes import apply_external_force_torque, push_by_setting_velocity
from envlab.envs.mdp.randomization import randomize_actuator_gains, randomize_joint_parameters
from envlab.envs.mdp.randomization_bodies import (
    randomize_rigid_body_com,
    randomize_rigid_body_material,
)
from envlab.envs.mdp.rewards import (
    action_l2,
    action_rate_l2,
    is_alive,
    is_terminated,
    joint_pos_target_l2,
    joint_vel_l1,
    joint_vel_l2,
)
from envlab.envs.mdp.root import (
    base_ang_vel,
    base_lin_vel,
    base_pos_z,
    projected_gravity,
    root_ang_vel_w,
    root_lin_vel_w,
    root_pos_w,
    root_quat_w,
)
from envlab.envs.mdp.terminations import (
    joint_pos_out_of_manual_limit,
    root_height_below_minimum,
    time_out,
)
from envlab.envs.mdp.terrain import terrain_levels_vel
from envlab.envs.mdp.velocity import (
    ang_vel_xy_l2,
    bad_orientation,
    flat_orientation_l2,
    lin_vel_z_l2,
    track_ang_vel_z_exp,
    track_ang_vel_z_world_exp,
    track_lin_vel_xy_exp,
    track_lin_vel_xy_yaw_frame_exp,
)
from envlab.envs.mdp.velocity_command import UniformVelocityCommandCfg, VelocityRangesCfg

__all__ = [
    "BinaryJointPositionActionCfg",
    "DifferentialInverseKinematicsActionCfg",
    "EMAJointPositionToLimitsActionCfg",
    "GridPatternCfg",
    "InHandReOrientationCommandCfg",
    "JointEffortActionCfg",
    "JointPositionActionCfg",
    "JointVelocityActionCfg",
    "OffsetCfg",
    "PoseRangesCfg",
    "RayCasterCfg",
    "UniformCommandCfg",
    "UniformPoseCommandCfg",
    "UniformVelocityCommandCfg",
    "VelocityRangesCfg",
    "action_l2",
    "action_rate_l2",
    "ang_vel_xy_l2",
    "apply_external_force_torque",
    "bad_orientation",
    "base_ang_vel",
    "base_lin_vel",
    "base_pos_z",
    "base_pose",
    "body_poses",
    "feet_air_time",
    "feet_air_time_positive_biped",
    "feet_slide",
    "flat_orientation_l2",
    "generated_commands",
    "goal_quat_diff",
    "height_scan",
    "illegal_contact",
    "is_alive",
    "is_terminated",
    "joint_acc_l2",
    "joint_deviation_l1",
    "joint_pos",
    "joint_pos_limit_normalized",
    "joint_pos_limits",
    "joint_pos_out_of_manual_limit",
    "joint_pos_rel",
    "joint_pos_target_l2",
    "joint_torques_l2",
    "joint_vel",
    "joint_vel_l1",
    "joint_vel_l2",
    "joint_vel_rel",
    "last_action",
    "lin_vel_z_l2",
    "max_consecutive_success",
    "modify_reward_weight",
    "object_away_from_robot",
    "object_ee_distance",
    "object_goal_distance",
    "object_is_lifted",
    "object_position_in_robot_root_frame",
    "orientation_command_error",
    "position_command_error",
    "position_command_error_tanh",
    "projected_gravity",
    "push_by_setting_velocity",
    "randomize_actuator_gains",
    "randomize_joint_parameters",
    "randomize_rigid_body_com",
    "randomize_rigid_body_mass",
    "randomize_rigid_body_material",
    "reset_joints_by_offset",
    "reset_joints_by_scale",
    "reset_joints_within_limits_range",
    "reset_root_state_uniform",
    "root_ang_vel_w",
    "root_height_below_minimum",
    "root_lin_vel_w",
    "root_pos_w",
    "root_quat_w",
    "sensor",
    "site_orientations",
    "site_positions",
    "success_bonus",
    "terrain_levels_vel",
    "time_out",
    "track_ang_vel_z_exp",
    "track_ang_vel_z_world_exp",
    "track_lin_vel_xy_exp",
    "track_lin_vel_xy_yaw_frame_exp",
    "track_orientation_inv_l2",
    "undesired_contacts",
]
