"""Isaac-Stack-Cube-Franka-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- There are rewards: the number of completed subtasks, and a bonus for the stack that is worth as
  much as an episode of these. Isaac Lab has none, because it learns from demonstrations.
- An action of 0 is the pose in which episodes start. In Isaac Lab it is the robot's default pose,
  because the action term reads it before the event changes it.
- Cubes start on the table; in Isaac Lab, 3 mm inside it.
- ``stack_1`` is true only if cube 2 is on top; in Isaac Lab, also if the two are side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import (
    EntityCfg,
    InitialStateCfg,
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    ShapeCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.managers import (
    ActionTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SuccessTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, observation, reward, termination
from envlab_tasks.manipulation import franka
from envlab_tasks.manipulation.stack import stack_terms as terms

CUBES = ("cube_1", "cube_2", "cube_3")
"""Blue, red and green, from below."""
HOME = (0.0444, -0.1894, -0.1107, -2.5148, 0.0044, 2.3775, 0.6952)
"""The arm's pose, in rad: stack/config/franka/stack_joint_pos_env_cfg.py."""
EDGE_M, MASS_KG = 0.047, 0.02
"""Isaac Lab's blocks (IsaacLab#7476)."""


def _cube(x: float, y: float, rgb: tuple[float, float, float]) -> EntityCfg:
    half = EDGE_M / 2
    return EntityCfg(
        shape=ShapeCfg(
            type="box",
            size=(half, half, half),
            mass=MASS_KG,
            condim=4,
            friction=(1.0, 0.02, 0.0001),
            solimp=(0.99, 0.999, 0.001),
            rgba=(*rgb, 1.0),
        ),
        init_state=InitialStateCfg(pos=(x, y, half)),
    )


@dataclass(kw_only=True)
class ActionsCfg:
    """Targets of the arm, and opening of the fingers."""

    arm_action: ActionTermCfg = default(franka.joint_positions(scale=0.5))
    gripper_action: ActionTermCfg = field(default_factory=franka.gripper)


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Last action, joints (9 each), cubes and vectors to them (60), the hand's pose, fingers."""

    actions: ObservationTermCfg = default(observation(mdp.last_action))
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel))
    object: ObservationTermCfg = default(observation(terms.object_obs))
    cube_positions: ObservationTermCfg = default(observation(terms.cube_positions_in_world_frame))
    cube_orientations: ObservationTermCfg = default(
        observation(terms.cube_orientations_in_world_frame)
    )
    eef_pos: ObservationTermCfg = default(observation(terms.ee_frame_pos))
    eef_quat: ObservationTermCfg = default(observation(terms.ee_frame_quat))
    gripper_pos: ObservationTermCfg = default(observation(terms.gripper_pos))


def _grasp(cube: str) -> ObservationTermCfg:
    return observation(terms.object_grasped, object_cfg=SceneEntityCfg(cube))


@dataclass(kw_only=True)
class SubtaskCfg(ObservationGroupCfg):
    """Completed subtasks: 1 or 0 each, for splitting demonstrations into parts."""

    grasp_1: ObservationTermCfg = default(_grasp("cube_2"))
    stack_1: ObservationTermCfg = default(
        observation(
            terms.object_stacked,
            upper_object_cfg=SceneEntityCfg("cube_2"),
            lower_object_cfg=SceneEntityCfg("cube_1"),
        )
    )
    grasp_2: ObservationTermCfg = default(_grasp("cube_3"))


@dataclass(kw_only=True)
class ObservationsCfg:
    """The policy's group, and the completed subtasks."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    subtask_terms: SubtaskCfg = field(default_factory=SubtaskCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """The arm starts near one pose, the cubes apart on the table before it."""

    randomize_franka_joint_state: EventTermCfg = default(
        at_reset(
            terms.randomize_joint_by_gaussian_offset,
            mean=0.0,
            std=0.02,
            asset_cfg=SceneEntityCfg("robot", joint_names=franka.ARM),
        )
    )
    randomize_cube_positions: EventTermCfg = default(
        at_reset(
            terms.randomize_object_pose,
            pose_range={
                "x": (0.4, 0.6),
                "y": (-0.1, 0.1),
                "z": (0.0235, 0.0235),
                "yaw": (-1.0, 1.0),
            },
            min_separation=0.1,
        )
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Ours alone. Weights are per second, and a step is 0.05 s: the stack pays 30."""

    subtasks: RewardTermCfg = default(reward(terms.subtasks_done, 1.0))
    stacked: RewardTermCfg = default(reward(terms.cubes_stacked, 600.0))


def _dropped(cube: str) -> TerminationTermCfg:
    return termination(
        mdp.root_height_below_minimum, minimum_height=-0.05, asset_cfg=SceneEntityCfg(cube)
    )


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time limit, a cube that fell off the table, and the stack."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))
    cube_1_dropping: TerminationTermCfg = default(_dropped("cube_1"))
    cube_2_dropping: TerminationTermCfg = default(_dropped("cube_2"))
    cube_3_dropping: TerminationTermCfg = default(_dropped("cube_3"))
    success: TerminationTermCfg = default(termination(terms.cubes_stacked))


@dataclass(kw_only=True)
class FrankaCubeStackEnvCfg(ManagerEnvCfg):
    """Stack three cubes within 30 seconds, at 20 Hz."""

    decimation: int = 5
    episode_length_s: float = 30.0
    sim: SimulationCfg = default(
        SimulationCfg(dt=0.01, data_fields=("xpos", "xquat", "site_xpos"), num_constraints_max=256)
    )
    scene: SceneCfg = default(
        franka.on_a_table(
            "franka_stack",
            franka.panda(HOME),
            cube_1=_cube(0.4, 0.0, (0.2, 0.4, 0.85)),
            cube_2=_cube(0.55, 0.05, (0.85, 0.25, 0.2)),
            cube_3=_cube(0.6, -0.1, (0.25, 0.65, 0.35)),
        )
    )
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    success: SuccessTermCfg | None = default(SuccessTermCfg(func=terms.cubes_stacked))
