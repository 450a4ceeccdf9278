"""Terms that tasks share, with Isaac Lab's names: short, pure functions over the batch."""

from envlab.envs.mdp.actions import (
    JointEffortActionCfg,
    JointPositionActionCfg,
    JointVelocityActionCfg,
)
from envlab.envs.mdp.commands import UniformCommandCfg
from envlab.envs.mdp.curriculums import modify_reward_weight
from envlab.envs.mdp.events import (
    randomize_rigid_body_mass,
    reset_joints_by_offset,
    reset_joints_by_scale,
    reset_root_state_uniform,
)
from envlab.envs.mdp.observations import (
    generated_commands,
    joint_pos,
    joint_pos_rel,
    joint_vel,
    joint_vel_rel,
    last_action,
    sensor,
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
    root_lin_vel_w,
    root_pos_w,
    root_quat_w,
)
from envlab.envs.mdp.terminations import joint_pos_out_of_manual_limit, time_out

__all__ = [
    "JointEffortActionCfg",
    "JointPositionActionCfg",
    "JointVelocityActionCfg",
    "UniformCommandCfg",
    "action_l2",
    "action_rate_l2",
    "base_ang_vel",
    "base_lin_vel",
    "base_pos_z",
    "generated_commands",
    "is_alive",
    "is_terminated",
    "joint_pos",
    "joint_pos_out_of_manual_limit",
    "joint_pos_rel",
    "joint_pos_target_l2",
    "joint_vel",
    "joint_vel_l1",
    "joint_vel_l2",
    "joint_vel_rel",
    "last_action",
    "modify_reward_weight",
    "projected_gravity",
    "randomize_rigid_body_mass",
    "reset_joints_by_offset",
    "reset_joints_by_scale",
    "reset_root_state_uniform",
    "root_lin_vel_w",
    "root_pos_w",
    "root_quat_w",
    "sensor",
    "time_out",
]
