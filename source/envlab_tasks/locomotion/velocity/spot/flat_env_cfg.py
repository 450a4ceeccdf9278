"""Isaac-Velocity-Flat-Spot-v0. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- The torque of Spot's knees is limited to 113.2 N m. In Isaac Lab the limit depends on the angle,
  and this is its maximum (96 N m and more between -0.9 and -2.0 rad).
- Spot's masses are those of the MuJoCo Menagerie, 50.3 kg in all, and joints have no armature.
- Joint velocities are not clamped at a reset.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.actuators import DelayedPDActuatorCfg
from envlab.envs.managers import (
    EventTermCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, observation, reward, termination
from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    MeshPlaneTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from envlab_tasks.locomotion.velocity.spot import rewards
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    ActionsCfg,
    CommandsCfg,
    CurriculumCfg,
    EventsCfg,
    ObservationsCfg,
    PolicyCfg,
    SensorsCfg,
    base_mass,
    external_wrench,
    in_contact,
    scaled_actions,
)

MODEL = "envlab_assets:robots/spot.xml"
FEET = SceneEntityCfg("robot", body_names=".*_foot")
TOUCHES = in_contact(".*_foot")


def delayed(joints: str, effort_limit: float) -> DelayedPDActuatorCfg:
    """Return PD control whose targets are late by up to 4 physics steps, 8 ms."""
    return DelayedPDActuatorCfg(
        joint_names_expr=[joints],
        stiffness=60.0,
        damping=1.5,
        effort_limit=effort_limit,
        min_delay=0,
        max_delay=4,
    )


def spot_scene(
    num_envs: int, num_rows: int, num_cols: int, max_init_terrain_level: int | None
) -> SceneCfg:
    """Return Spot on tiles that are flat or slightly rough, ``COBBLESTONE_ROAD_CFG``, at random."""
    ground = TerrainGeneratorCfg(
        num_rows=num_rows,
        num_cols=num_cols,
        sub_terrains={
            "flat": MeshPlaneTerrainCfg(proportion=0.2),
            "random_rough": HfRandomUniformTerrainCfg(
                proportion=0.2, noise_range=(0.02, 0.05), noise_step=0.02, border_width=0.25
            ),
        },
    )
    return SceneCfg(
        num_envs=num_envs,
        model=MODEL,
        actuators={
            "spot_hip": delayed(".*_h[xy]", effort_limit=45.0),
            "spot_knee": delayed(".*_kn", effort_limit=113.236),
        },
        terrain=TerrainCfg(max_init_terrain_level=max_init_terrain_level, terrain_generator=ground),
    )


@dataclass(kw_only=True)
class SpotCommandsCfg(CommandsCfg):
    """Fast in all directions, by turning velocities alone; a tenth of the robots stand."""

    base_velocity: mdp.UniformVelocityCommandCfg = default(
        mdp.UniformVelocityCommandCfg(
            resampling_time_range=(10.0, 10.0),
            heading_command=False,
            rel_standing_envs=0.1,
            rel_heading_envs=0.0,
            ranges=mdp.VelocityRangesCfg(
                lin_vel_x=(-2.0, 3.0), lin_vel_y=(-1.5, 1.5), ang_vel_z=(-2.0, 2.0)
            ),
        )
    )


@dataclass(kw_only=True)
class SpotPolicyCfg(PolicyCfg):
    """Noise is off."""

    enable_corruption: bool = False
    base_ang_vel: ObservationTermCfg = default(observation(mdp.base_ang_vel, 0.1))
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.05))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 0.5))


@dataclass(kw_only=True)
class SpotEventsCfg(EventsCfg):
    """Robots differ in friction and mass, start in motion, and are pushed."""

    physics_material: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.randomize_rigid_body_material,
            mode="startup",
            # Isaac Lab's static coefficient is 0.3 to 1.0, and its dynamic one 0.3 to 0.8.
            params={"asset_cfg": SceneEntityCfg("robot"), "friction_range": (0.3, 0.9)},
        )
    )
    add_base_mass: EventTermCfg | None = default(base_mass("body", -2.5, 2.5))
    base_com: EventTermCfg | None = None
    base_external_force_torque: EventTermCfg | None = default(external_wrench("body"))
    reset_base: EventTermCfg | None = default(
        at_reset(
            mdp.reset_root_state_uniform,
            pose_range={"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": (-3.14, 3.14)},
            velocity_range={
                "x": (-1.5, 1.5),
                "y": (-1.0, 1.0),
                "z": (-0.5, 0.5),
                "roll": (-0.7, 0.7),
                "pitch": (-0.7, 0.7),
                "yaw": (-1.0, 1.0),
            },
        )
    )
    reset_robot_joints: EventTermCfg | None = default(
        at_reset(mdp.reset_joints_by_offset, position_range=(-0.2, 0.2), velocity_range=(-2.5, 2.5))
    )


@dataclass(kw_only=True)
class SpotRewardsCfg:
    """Follow the command at a trot, lift the feet, and be smooth and level."""

    air_time: RewardTermCfg | None = default(
        reward(
            rewards.air_time_reward, 5.0, mode_time=0.3, velocity_threshold=0.5, sensor_cfg=TOUCHES
        )
    )
    base_angular_velocity: RewardTermCfg | None = default(
        reward(rewards.base_angular_velocity_reward, 5.0, std=2.0)
    )
    base_linear_velocity: RewardTermCfg | None = default(
        reward(rewards.base_linear_velocity_reward, 5.0, std=1.0, ramp_rate=0.5, ramp_at_vel=1.0)
    )
    foot_clearance: RewardTermCfg | None = default(
        reward(
            rewards.foot_clearance_reward,
            0.5,
            std=0.05,
            tanh_mult=2.0,
            target_height=0.1,
            asset_cfg=FEET,
        )
    )
    gait: RewardTermCfg | None = default(
        reward(
            rewards.gait_reward,
            10.0,
            std=0.1,
            max_err=0.2,
            velocity_threshold=0.5,
            synced_feet_pair_names=[["fl_foot", "hr_foot"], ["fr_foot", "hl_foot"]],
            sensor_cfg=TOUCHES,
        )
    )
    action_smoothness: RewardTermCfg | None = default(
        reward(rewards.action_smoothness_penalty, -1.0)
    )
    air_time_variance: RewardTermCfg | None = default(
        reward(rewards.air_time_variance_penalty, -1.0, sensor_cfg=TOUCHES)
    )
    base_motion: RewardTermCfg | None = default(reward(rewards.base_motion_penalty, -2.0))
    base_orientation: RewardTermCfg | None = default(reward(rewards.base_orientation_penalty, -3.0))
    foot_slip: RewardTermCfg | None = default(
        reward(rewards.foot_slip_penalty, -0.5, threshold=1.0, sensor_cfg=TOUCHES, asset_cfg=FEET)
    )
    # Isaac Lab names the hips for the next term and the last one, but measures all joints.
    joint_acc: RewardTermCfg | None = default(reward(rewards.joint_acceleration_penalty, -1.0e-4))
    joint_pos: RewardTermCfg | None = default(
        reward(rewards.joint_position_penalty, -0.7, stand_still_scale=5.0, velocity_threshold=0.5)
    )
    joint_torques: RewardTermCfg | None = default(reward(rewards.joint_torques_penalty, -5.0e-4))
    joint_vel: RewardTermCfg | None = default(reward(rewards.joint_velocity_penalty, -1.0e-2))


@dataclass(kw_only=True)
class SpotTerminationsCfg:
    """The time is up, body or legs touch something, or the ground ends soon."""

    time_out: TerminationTermCfg | None = default(termination(mdp.time_out, time_out=True))
    body_contact: TerminationTermCfg | None = default(
        termination(
            mdp.illegal_contact,
            sensor_cfg=SceneEntityCfg("contact_forces", body_names=["body", ".*leg"]),
            threshold=1.0,
        )
    )
    terrain_out_of_bounds: TerminationTermCfg | None = default(
        termination(mdp.terrain_out_of_bounds, distance_buffer=3.0, time_out=True)
    )


@dataclass(kw_only=True)
class SpotFlatEnvCfg(ManagerEnvCfg):
    """Spot on cobblestones, at 500 physics steps per second."""

    decimation: int = 10
    episode_length_s: float = 20.0
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.002,
            data_fields=(
                *("sensordata", "actuator_force", "xpos"),
                *("cvel", "xipos", "subtree_com"),  # how fast feet slide
            ),
            substep_fields=("qvel",),
            model_fields=("body_mass", "body_inertia", "geom_friction"),
            num_contacts_max=96,
            num_constraints_max=384,
        )
    )
    scene: SceneCfg = default(spot_scene(4096, 9, 21, max_init_terrain_level=8))
    observations: ObservationsCfg = default(ObservationsCfg(policy=SpotPolicyCfg()))
    actions: ActionsCfg = default(scaled_actions(0.2))
    commands: CommandsCfg = field(default_factory=SpotCommandsCfg)
    events: EventsCfg = field(default_factory=SpotEventsCfg)
    rewards: SpotRewardsCfg = field(default_factory=SpotRewardsCfg)
    terminations: SpotTerminationsCfg = field(default_factory=SpotTerminationsCfg)
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)
    sensors: SensorsCfg = field(default_factory=SensorsCfg)


@dataclass(kw_only=True)
class SpotFlatPlayEnvCfg(SpotFlatEnvCfg):
    """Few robots on few tiles; they are pushed, as in Isaac Lab."""

    scene: SceneCfg = default(spot_scene(50, 5, 5, max_init_terrain_level=None))
    curriculum: CurriculumCfg | None = None
