"""Isaac-Repose-Cube-Allegro-v0. The numbers are those of Isaac Lab 2.3.

Differs from Isaac Lab 2.3.2:

- The variant to play keeps the time limit, so that it can report a mean return.
- The fingers' collision shapes are capsules that fill the links.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco

from envlab.envs import (
    GaussianNoiseCfg,
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SuccessTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, at_startup, observation, reward, termination
from envlab_tasks.in_hand import scene

GOAL = "object_pose"
"""Name of the command."""


def look(spec: mujoco.MjSpec) -> None:
    """Add the camera."""
    scene.add_camera(spec, (0.27, -0.52, 0.86), 40.0)


def allegro_scene() -> SceneCfg:
    """Return the scene of an Allegro hand with Isaac Lab's DexCube of 6 cm."""
    hand = scene.hand("allegro", scene.ALLEGRO_HOME)
    return scene.scene("allegro_cube", hand, scene.cube(0.03, (0.0, -0.19, 0.56)), look, 8192)


def cube() -> SceneEntityCfg:
    """Select the cube."""
    return SceneEntityCfg("object")


def noise(std: float) -> GaussianNoiseCfg:
    """Return noise of a standard deviation."""
    return GaussianNoiseCfg(std=std)


@dataclass(kw_only=True)
class CommandsCfg:
    """An orientation for the cube; the next one as soon as it is reached, within 0.1 rad."""

    object_pose: mdp.InHandReOrientationCommandCfg = default(
        mdp.InHandReOrientationCommandCfg(
            init_pos_offset=(0.0, 0.0, -0.04),
            orientation_success_threshold=0.1,
            marker_pos_offset=(-0.2, -0.06, 0.08),
        )
    )


@dataclass(kw_only=True)
class ActionsCfg:
    """Target positions of the 16 joints, from -1 at the lower limit to 1 at the upper one."""

    joint_pos: mdp.EMAJointPositionToLimitsActionCfg = default(
        mdp.EMAJointPositionToLimitsActionCfg(joint_names=".*_joint_.", alpha=0.95)
    )


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Joints (16 + 16), the cube's pose (7) and velocities (6), goal (7 + 4), last action (16)."""

    enable_corruption: bool = True
    joint_pos: ObservationTermCfg = default(
        ObservationTermCfg(func=mdp.joint_pos_limit_normalized, noise=noise(0.005))
    )
    joint_vel: ObservationTermCfg | None = default(
        ObservationTermCfg(func=mdp.joint_vel_rel, scale=0.2, noise=noise(0.01))
    )
    object_pos: ObservationTermCfg = default(
        ObservationTermCfg(func=mdp.root_pos_w, noise=noise(0.002), params={"asset_cfg": cube()})
    )
    object_quat: ObservationTermCfg = default(observation(mdp.root_quat_w, asset_cfg=cube()))
    object_lin_vel: ObservationTermCfg | None = default(
        ObservationTermCfg(
            func=mdp.root_lin_vel_w, noise=noise(0.002), params={"asset_cfg": cube()}
        )
    )
    object_ang_vel: ObservationTermCfg | None = default(
        ObservationTermCfg(
            func=mdp.root_ang_vel_w, scale=0.2, noise=noise(0.002), params={"asset_cfg": cube()}
        )
    )
    goal_pose: ObservationTermCfg = default(observation(mdp.generated_commands, command_name=GOAL))
    goal_quat_diff: ObservationTermCfg = default(observation(mdp.goal_quat_diff, command_name=GOAL))
    last_action: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class ObservationsCfg:
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Every environment has its own friction, masses and gains; every episode its own start."""

    robot_physics_material: EventTermCfg = default(
        at_startup(mdp.randomize_rigid_body_material, friction_range=(0.7, 1.3))
    )
    robot_scale_mass: EventTermCfg = default(
        at_startup(
            mdp.randomize_rigid_body_mass, mass_distribution_params=(0.95, 1.05), operation="scale"
        )
    )
    robot_joint_stiffness_and_damping: EventTermCfg = default(
        at_startup(
            mdp.randomize_actuator_gains,
            stiffness_distribution_params=(0.3, 3.0),
            damping_distribution_params=(0.75, 1.5),
            operation="scale",
            distribution="log_uniform",
        )
    )
    object_physics_material: EventTermCfg = default(
        at_startup(mdp.randomize_rigid_body_material, friction_range=(0.7, 1.3), asset_cfg=cube())
    )
    object_scale_mass: EventTermCfg = default(
        at_startup(
            mdp.randomize_rigid_body_mass,
            mass_distribution_params=(0.4, 1.6),
            operation="scale",
            asset_cfg=cube(),
        )
    )
    reset_object: EventTermCfg = default(
        at_reset(
            mdp.reset_root_state_uniform,
            pose_range={"x": (-0.01, 0.01), "y": (-0.01, 0.01), "z": (-0.01, 0.01)},
            velocity_range={},
            asset_cfg=cube(),
        )
    )
    reset_robot_joints: EventTermCfg = default(
        at_reset(
            mdp.reset_joints_within_limits_range, position_range=(0.2, 0.2), use_default_offset=True
        )
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Come near the goal, and reach it; keep joints and actions calm. Weights are per second."""

    track_orientation_inv_l2: RewardTermCfg = default(
        reward(mdp.track_orientation_inv_l2, 1.0, command_name=GOAL, rot_eps=0.1)
    )
    success_bonus: RewardTermCfg = default(reward(mdp.success_bonus, 250.0, command_name=GOAL))
    joint_vel_l2: RewardTermCfg = default(reward(mdp.joint_vel_l2, -2.5e-5))
    action_l2: RewardTermCfg = default(reward(mdp.action_l2, -1e-4))
    action_rate_l2: RewardTermCfg = default(reward(mdp.action_rate_l2, -0.01))


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time is up, fifty goals are reached, or the cube is lost."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))
    max_consecutive_success: TerminationTermCfg = default(
        termination(mdp.max_consecutive_success, num_success=50, command_name=GOAL)
    )
    object_out_of_reach: TerminationTermCfg = default(
        termination(mdp.object_away_from_robot, threshold=0.3)
    )


@dataclass(kw_only=True)
class AllegroCubeEnvCfg(ManagerEnvCfg):
    """Turn the cube for 20 seconds at 30 Hz."""

    decimation: int = 4
    episode_length_s: float = 20.0
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=1.0 / 120.0,
            model_fields=(
                "geom_friction",
                "body_mass",
                "body_inertia",
                "actuator_gainprm",
                "actuator_biasprm",
            ),
            num_contacts_max=64,
            num_constraints_max=256,
        )
    )
    scene: SceneCfg = default(allegro_scene())
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(func=mdp.share_of_goals_reached, params={"command_name": GOAL})
    )
    """As in Isaac Lab 3: n / (n + 1) after n reached goals, because the last goal is not
    reached."""


def without_velocities() -> AllegroCubeEnvCfg:
    """Return Isaac-Repose-Cube-Allegro-NoVelObs-v0, which observes no velocities."""
    cfg = AllegroCubeEnvCfg()
    policy = cfg.observations.policy
    policy.joint_vel = policy.object_lin_vel = policy.object_ang_vel = None
    return cfg


def to_play(cfg: AllegroCubeEnvCfg) -> AllegroCubeEnvCfg:
    """Give a task few environments, without noise.

    Isaac Lab also removes the time limit; it is kept here, so that play reports a mean return.
    """
    cfg.scene.num_envs = 50
    cfg.observations.policy.enable_corruption = False
    return cfg


def play() -> AllegroCubeEnvCfg:
    """Return Isaac-Repose-Cube-Allegro-Play-v0."""
    return to_play(AllegroCubeEnvCfg())


def without_velocities_play() -> AllegroCubeEnvCfg:
    """Return Isaac-Repose-Cube-Allegro-NoVelObs-Play-v0."""
    return to_play(without_velocities())
