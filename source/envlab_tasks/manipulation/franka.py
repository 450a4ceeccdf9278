"""Common part of the Panda's tasks: actions, and the stiffer arm for inverse kinematics.

Differs from Isaac Lab 2.3.2:

- The arm's joints have an armature of 0.1 kg m^2 and the fingers of 1 kg, with which a grasp holds;
  Isaac Lab's configuration sets none.
- The arm's velocities have no limits: under random actions of Lift its joints reach 9 rad/s (99 %),
  although the robot's limits are 2.2 and 2.6. PhysX enforces those of the USD file.
- The IK variants solve for joint positions once per control step; Isaac Lab solves in each physics
  step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar

import torch

from envlab.envs import (
    EntityCfg,
    InitialStateCfg,
    ManagerEnv,
    SceneCfg,
    SceneEntityCfg,
    mdp,
)
from envlab.envs.actuators import AnyActuatorCfg, IdealPDActuatorCfg, ImplicitActuatorCfg
from envlab.envs.controlled_frame import (
    IK_PARAMS,
    ControlledFrame,
    DifferentialIKControllerCfg,
    Pose,
    joint_displacements,
    pose_error,
)
from envlab.envs.entities import columns, resolve_entity
from envlab.envs.math import combine_frame_transforms, subtract_frame_transforms
from envlab.envs.mdp.actions import JointAction
from envlab.envs.mdp.ik_actions import DifferentialInverseKinematicsAction

ARM = "panda_joint.*"
FINGERS = "panda_finger_joint.*"
IK_FIELDS = ("xpos", "xquat", "xanchor", "xaxis")
"""Data fields that inverse kinematics reads."""
HAND_FIELDS = (*IK_FIELDS, "qfrc_bias")
"""Data fields that a policy by hand reads of an arm controlled by joint positions."""

GRASP_POINT = mdp.OffsetCfg(pos=(0.0, 0.0, 0.107))
"""Of Isaac Lab's tasks with inverse kinematics, on the hand; others of its have 103.4 mm."""
HOME = (0.0, -0.569, 0.0, -2.81, 0.0, 3.037, 0.741)
"""Positions of the arm's joints in which episodes start, in rad; Isaac Lab's FRANKA_PANDA_CFG."""
Stiffened = TypeVar("Stiffened", SceneCfg, EntityCfg)


def panda(joints: tuple[float, ...] = HOME) -> EntityCfg:
    """Return the Panda with open fingers, and with Isaac Lab's FRANKA_PANDA_CFG gains.

    Its names have no prefix, so they are the same as in the tasks that are one file.
    """
    arm = {f"panda_joint{number}": value for number, value in enumerate(joints, 1)}
    return EntityCfg(
        model="envlab_assets:robots/franka.xml",
        prefix="",
        init_state=InitialStateCfg(joint_pos={**arm, FINGERS: 0.04}),
    )


def on_a_table(name: str, robot: EntityCfg, num_envs: int = 4096, **objects: EntityCfg) -> SceneCfg:
    """Return the scene of a Panda on a table, and objects; ``name`` is that of its former file."""
    room = EntityCfg(model="envlab_assets:robots/franka_room.xml")
    return SceneCfg(
        num_envs=num_envs,
        entities={"robot": robot, "room": room, **objects},
        replaces=f"envlab_assets:robots/{name}.xml",
    )


def scene(name: str, num_envs: int = 4096) -> SceneCfg:
    """Return a scene of one file with the Panda, with Isaac Lab's FRANKA_PANDA_CFG gains."""
    return SceneCfg(num_envs=num_envs, model=f"envlab_assets:robots/{name}.xml")


def stiff_scene(name: str, num_envs: int = 4096) -> SceneCfg:
    """Return it stiff."""
    return stiff(scene(name, num_envs))


def stiff(cfg: Stiffened) -> Stiffened:
    """Return a scene or Panda with FRANKA_PANDA_HIGH_PD_CFG's gains, and an arm without gravity."""

    def gains(joints: str, effort_limit: float) -> AnyActuatorCfg:
        return ImplicitActuatorCfg(
            joint_names_expr=[joints], stiffness=400.0, damping=80.0, effort_limit=effort_limit
        )

    actuators = {
        "panda_shoulder": gains("panda_joint[1-4]", 87.0),
        "panda_forearm": gains("panda_joint[5-7]", 12.0),
    }
    return replace(cfg, actuators=actuators, disable_gravity=["panda_.*"])


def joint_positions(scale: float) -> mdp.JointPositionActionCfg:
    """Return the action of target positions of the arm's joints, in rad from the default ones."""
    return mdp.JointPositionActionCfg(joint_names=ARM, scale=scale)


def hand_pose(kind: Literal["absolute", "relative"]) -> mdp.DifferentialInverseKinematicsActionCfg:
    """Return the action of a pose of the hand's grasp point, or of half a displacement of it."""
    is_relative = kind == "relative"
    return mdp.DifferentialInverseKinematicsActionCfg(
        joint_names=ARM,
        body_name="panda_hand",
        body_offset=GRASP_POINT,
        scale=0.5 if is_relative else 1.0,
        controller=DifferentialIKControllerCfg(
            command_type="pose", use_relative_mode=is_relative, ik_method="dls"
        ),
    )


def torque_scene(name: str) -> SceneCfg:
    """Return a scene whose arm has motors within Isaac Lab's limits, and no gravity."""

    def motor(joints: str, effort_limit: float) -> AnyActuatorCfg:
        return IdealPDActuatorCfg(joint_names_expr=[joints], effort_limit=effort_limit)

    actuators = {
        "panda_shoulder": motor("panda_joint[1-4]", 87.0),
        "panda_forearm": motor("panda_joint[5-7]", 12.0),
    }
    return replace(scene(name), actuators=actuators, disable_gravity=["panda_.*"])


def operational_space() -> mdp.OperationalSpaceControllerActionCfg:
    """Return the action of a pose of the hand, and of six stiffnesses, Isaac Lab's Reach's."""
    return mdp.OperationalSpaceControllerActionCfg(
        joint_names=ARM,
        body_name="panda_hand",
        controller_cfg=mdp.OperationalSpaceControllerCfg(
            target_types=["pose_abs"],
            impedance_mode="variable_kp",
            inertial_dynamics_decoupling=True,
            gravity_compensation=False,
            motion_stiffness_task=100.0,
            motion_damping_ratio_task=1.0,
            motion_stiffness_limits_task=(50.0, 200.0),
            nullspace_control="position",
        ),
        nullspace_joint_pos_target="center",
        stiffness_scale=100.0,
    )


def gripper() -> mdp.BinaryJointPositionActionCfg:
    """Return the action that opens or closes the fingers."""
    return mdp.BinaryJointPositionActionCfg(
        joint_names=FINGERS,
        open_command_expr={FINGERS: 0.04},
        close_command_expr={FINGERS: 0.0},
    )


LEAD_M = 0.1
"""Farthest that a policy by hand has the hand go in a step; beyond it, a grasp slips."""


class Hand:
    """The Panda's grasp point, for policies by hand. Poses are in the frame of its topmost body."""

    def __init__(self, env: ManagerEnv) -> None:
        self.offset: Pose = (
            env.actions.new_tensor([GRASP_POINT.pos]).expand(env.num_envs, -1),
            env.actions.new_tensor([GRASP_POINT.rot]).expand(env.num_envs, -1),
        )
        """Its pose on its body."""
        term = env.action_manager.get_term("arm_action")
        self._arm: DifferentialInverseKinematicsAction | SwungArm
        if isinstance(term, DifferentialInverseKinematicsAction):
            self._arm = term
        else:
            assert isinstance(term, JointAction), term
            self._arm = SwungArm(env, term)

    def pose(self) -> Pose:
        """Return its pose."""
        return subtract_frame_transforms(*self.root_pose(), *self._arm.frame.pose())

    def root_pose(self) -> Pose:
        """Return the pose of the robot's topmost body in the world."""
        return self._arm.frame.root_pose()

    def towards(self, pos: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        """Return actions of the arm towards a pose, which go :data:`LEAD_M` ahead of the hand."""
        now, _ = self.pose()
        way = pos - now
        share = (LEAD_M / way.norm(dim=1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0)
        return self._arm.actions_to(now + share * way, quat)


class SwungArm:
    """An arm that is controlled by joint positions, moved by poses of the grasp point.

    Its gains are low: with targets at the joints' goals it sags under its weight, and swings. These
    lie beyond the goals by the weight over the stiffness, and brake.
    """

    REACH = 2.0
    """Targets per displacement of the joints, and brakes per damping of the arm's own."""

    def __init__(self, env: ManagerEnv, term: JointAction) -> None:
        parts = SceneEntityCfg("robot", joint_names=ARM, body_names="panda_hand")
        self.frame = ControlledFrame("a policy by hand", env, parts, GRASP_POINT)
        model, self._data = env.sim.model, env.sim.data
        actuators = self.frame.actuators.tolist()
        self._stiffness = env.actions.new_tensor(model.actuator_gainprm[actuators, 0])
        self._damping = -env.actions.new_tensor(model.actuator_biasprm[actuators, 2])
        self._dofs = resolve_entity(parts, model, env.device).qvel_ids
        affine = term.describe()
        assert affine is not None, term
        self._scale, self._offset = map(env.actions.new_tensor, (affine["scale"], affine["offset"]))

    def actions_to(self, pos: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        """Return actions, ``(num_envs, 7)``.

        Args:
            pos: Position of the grasp point in the frame of the topmost body, in m,
                ``(num_envs, 3)``.
            quat: Orientation in that frame, (w, x, y, z), ``(num_envs, 4)``.
        """
        frame = self.frame
        goal = combine_frame_transforms(*frame.root_pose(), pos, quat)
        now = frame.pose()
        moves = joint_displacements(
            frame.jacobian(now[0]), pose_error(*now, *goal), "dls", IK_PARAMS["dls"]
        )
        weight = columns(self._data.qfrc_bias, self._dofs)
        brake = self.REACH * self._damping * frame.joint_vel
        targets = frame.joint_pos + self.REACH * moves + (weight - brake) / self._stiffness
        return (targets - self._offset) / self._scale
