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

from envlab.envs import EntityCfg, InitialStateCfg, ManagerEnv, SceneCfg, mdp
from envlab.envs.actuators import AnyActuatorCfg, IdealPDActuatorCfg, ImplicitActuatorCfg
from envlab.envs.controlled_frame import DifferentialIKControllerCfg, Pose
from envlab.envs.mdp.ik_actions import DifferentialInverseKinematicsAction

ARM = "panda_joint.*"
FINGERS = "panda_finger_joint.*"
IK_FIELDS = ("xpos", "xquat", "xanchor", "xaxis")
"""Data fields that inverse kinematics reads."""


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
    """Return the action of a pose of the hand's grasp point, or of half a displacement of it.

    As in Isaac Lab, that point is 107 mm from the hand's frame, others use 103.4 mm.
    """
    is_relative = kind == "relative"
    return mdp.DifferentialInverseKinematicsActionCfg(
        joint_names=ARM,
        body_name="panda_hand",
        body_offset=mdp.OffsetCfg(pos=(0.0, 0.0, 0.107)),
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
    """The grasp point of a task that is controlled by poses or displacements, for policies by hand.

    Poses are in the frame of the robot's topmost body.
    """

    def __init__(self, env: ManagerEnv) -> None:
        term = env.action_manager.get_term("arm_action")
        assert isinstance(term, DifferentialInverseKinematicsAction), term
        self._term = term
        pos, quat = (env.actions.new_tensor([part]) for part in (term.offset.pos, term.offset.rot))
        self.offset = pos.expand(env.num_envs, -1), quat.expand(env.num_envs, -1)
        """Its pose on its body."""

    def pose(self) -> Pose:
        """Return its pose."""
        return self._term.pose()

    def root_pose(self) -> Pose:
        """Return the pose of the robot's topmost body in the world."""
        return self._term.frame.root_pose()

    def towards(self, pos: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        """Return actions of the arm towards a pose, which go :data:`LEAD_M` ahead of the hand."""
        now, _ = self.pose()
        way = pos - now
        share = (LEAD_M / way.norm(dim=1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0)
        return self._term.actions_to(now + share * way, quat)
