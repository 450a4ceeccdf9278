"""Actions by efforts: operational-space control of a frame of the robot, and joints' impedance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import mujoco
import torch

from envlab.envs.contact_match import ContactMatch, ContactQuery
from envlab.envs.controlled_frame import FRAME_FIELDS, ControlledFrame
from envlab.envs.entities import SceneEntityCfg, columns, resolve_entity
from envlab.envs.joint_space import JOINT_SPACE_FIELDS, JointSpace, refuse_compensated
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.math import matrix_from_quat, subtract_frame_transforms
from envlab.envs.mdp._controls import Bounds, Motors
from envlab.envs.mdp.actions import DrivenJoints
from envlab.envs.mdp.events import position_limits
from envlab.envs.operational_space import (
    Motion,
    OperationalSpaceController,
    OperationalSpaceControllerCfg,
    needs_mass_matrix,
)
from envlab.envs.spec_sensors import OffsetCfg
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


_NUM_PARTS = {"fixed": 1, "variable_kp": 2, "variable": 3}
"""Numbers of a command for each joint: position, stiffness, damping ratio."""


@dataclass(kw_only=True)
class JointImpedanceControllerCfg:
    """Conversion of commands to efforts ``kp (target - position) - kd velocity``."""

    command_type: Literal["p_abs", "p_rel"] = "p_abs"
    """Whether a command is a position, or a distance from the present one in each physics step."""
    dof_pos_offset: float | list[float] | None = None
    """Position at command 0 with ``p_abs``, of all joints or each; null: 0."""
    impedance_mode: Literal["fixed", "variable_kp", "variable"] = "fixed"
    """Whether commands end with stiffnesses of the joints, or these and damping ratios."""
    inertial_compensation: bool = False
    """Whether gains are of accelerations, whatever the inertia, instead of efforts."""
    gravity_compensation: bool = False
    """Whether the joints are held against gravity."""
    stiffness: float | list[float]
    """Stiffness of all joints or each."""
    damping_ratio: float | list[float] | None = None
    """Damping is ``2 sqrt(stiffness)`` times this; null: 1. With ``variable_kp`` it is 1."""
    stiffness_limits: tuple[float, float] = (0.0, 300.0)
    """Bounds of commanded stiffnesses."""
    damping_ratio_limits: tuple[float, float] = (0.0, 100.0)
    """Bounds of commanded damping ratios."""


@dataclass(kw_only=True)
class JointImpedanceActionCfg(ActionTermCfg):
    """Positions of joints, and their stiffness and damping, in each physics step; for motors.

    An action has the positions of all joints, then stiffnesses and damping ratios if the controller
    takes them.
    """

    joint_names: str | list[str]
    """Joints; regular expressions."""
    preserve_order: bool = False
    """Whether the action has the joints in the order of ``joint_names``, not in the model's."""
    scale: float = 1.0
    """Position in rad or m per unit of action; :attr:`clip` bounds the result."""
    controller_cfg: JointImpedanceControllerCfg
    """Kind of command and gains."""

    @property
    def data_fields(self) -> tuple[str, ...]:
        cfg = self.controller_cfg
        needs_dynamics = cfg.inertial_compensation or cfg.gravity_compensation
        return JOINT_SPACE_FIELDS if needs_dynamics else ()

    def build(self, env: VectorEnv) -> JointImpedanceAction:
        return JointImpedanceAction(self, env)


class JointImpedanceAction(ActionTerm):
    """The term of a :class:`JointImpedanceActionCfg`."""

    control_each_substep = True

    def __init__(self, cfg: JointImpedanceActionCfg, env: VectorEnv) -> None:
        """Look up names.

        Raises:
            ConfigurationError: For joints without motors, and gains of the wrong number.
        """
        settings, model = cfg.controller_cfg, env.sim.model
        self._cfg, self._sim = settings, env.sim
        joints = DrivenJoints(cfg, env)
        self._names, self._qpos_ids = joints.names, joints.qpos_ids
        ids = [int(model.jnt_dofadr[model.joint(name).id]) for name in joints.names]
        self._qvel_ids = torch.tensor(ids, device=env.device)
        actuators = torch.tensor(joints.actuators, device=env.device)
        self._motors = Motors("a joint impedance action", env, joints.names, actuators)
        self._limits = position_limits(env, joints.names)
        self._dynamics = JointSpace(env, joints.names) if cfg.data_fields else None
        if settings.gravity_compensation:
            refuse_compensated("A joint impedance action", env, joints.names)
        self._offset = self._row("dof_pos_offset", settings.dof_pos_offset or 0.0)
        self._kp = self._row("stiffness", settings.stiffness)
        ratio = settings.damping_ratio
        self._kd = (
            2.0 * self._kp.sqrt() * self._row("damping_ratio", 1.0 if ratio is None else ratio)
        )
        self._scale, self._clip = cfg.scale, Bounds(cfg.clip, joints.names, env.device)
        self.dim = _NUM_PARTS[settings.impedance_mode] * len(joints.names)

    def apply(self, actions: torch.Tensor) -> None:
        cfg, num = self._cfg, len(self._names)
        self._commands = actions[:, :num] * self._scale
        self._clip.apply(self._commands)
        if cfg.impedance_mode != "fixed":
            self._kp = actions[:, num : 2 * num].clamp(*cfg.stiffness_limits)
            self._kd = 2.0 * self._kp.sqrt()
        if cfg.impedance_mode == "variable":
            self._kd = self._kd * actions[:, 2 * num :].clamp(*cfg.damping_ratio_limits)

    def control(self) -> None:
        data, cfg = self._sim.data, self._cfg
        now, speeds = columns(data.qpos, self._qpos_ids), columns(data.qvel, self._qvel_ids)
        start = now if cfg.command_type == "p_rel" else self._offset
        target = torch.clamp(start + self._commands, *self._limits)
        efforts = self._kp * (target - now) - self._kd * speeds
        if self._dynamics is not None:
            if cfg.inertial_compensation:
                efforts = (self._dynamics.mass_matrix() @ efforts.unsqueeze(2)).squeeze(2)
            if cfg.gravity_compensation:
                efforts = efforts + self._dynamics.gravity()
        self._motors.write(efforts)

    def _row(self, name: str, setting: float | list[float]) -> torch.Tensor:
        values = torch.tensor(setting, dtype=torch.float32, device=self._qvel_ids.device)
        num = len(self._names)
        if values.shape not in ((), (num,)):
            raise ConfigurationError(
                f"{name} is {setting}, but must be a number, or one for each of the {num} joints."
            )
        return values.expand(1, num).clone()


@dataclass(kw_only=True)
class OperationalSpaceControllerActionCfg(ActionTermCfg):
    """Poses and wrenches of a frame of the robot, in each physics step; for motors.

    Commands are in the task frame, which is that of the robot's topmost body unless
    ``task_frame_rel_path`` names another. See :mod:`envlab.envs.operational_space`.
    """

    joint_names: str | list[str]
    """Joints to move; regular expressions."""
    body_name: str
    """Body to which the frame is fixed."""
    body_offset: OffsetCfg | None = None
    """The frame, relative to the body's; null: the body's."""
    task_frame_rel_path: str | None = None
    """A thing of the scene, or a body on the world, whose frame is the task's at the beginning of
    each control step."""
    controller_cfg: OperationalSpaceControllerCfg
    """Kinds of commands and gains."""
    position_scale: float = 1.0
    """Positions in m per unit of action."""
    orientation_scale: float = 1.0
    """Rotation vectors in rad per unit of action; quaternions are normalised after it."""
    wrench_scale: float = 1.0
    """Forces in N and torques in N m per unit of action."""
    stiffness_scale: float = 1.0
    """Stiffness per unit of action."""
    damping_ratio_scale: float = 1.0
    """Damping ratio per unit of action."""
    nullspace_joint_pos_target: Literal["none", "zero", "default", "center"] = "none"
    """Posture of ``nullspace_control="position"``: zeros, the pose in which episodes start, or the
    middle of the joints' ranges."""

    @property
    def data_fields(self) -> tuple[str, ...]:
        cfg = self.controller_cfg
        fields: tuple[str, ...] = FRAME_FIELDS
        if needs_mass_matrix(cfg) or cfg.gravity_compensation:
            fields += JOINT_SPACE_FIELDS
        return fields if self.contacts is None else (*fields, "sensordata")

    @property
    def contacts(self) -> ContactQuery | None:
        """The contact sensor of the body; None where forces are not fed back."""
        if self.controller_cfg.contact_wrench_stiffness_task is None:
            return None
        return ContactQuery(
            primary=ContactMatch(pattern=self.body_name),
            secondary=None,
            fields=("force",),
            reduce="netforce",
            num_slots=1,
        )

    def add_to(self, spec: mujoco.MjSpec) -> None:
        if self.contacts is not None:
            self.contacts.add_to(spec)

    def build(self, env: VectorEnv) -> OperationalSpaceControllerAction:
        return OperationalSpaceControllerAction(self, env)


class OperationalSpaceControllerAction(ActionTerm):
    """The term of an :class:`OperationalSpaceControllerActionCfg`."""

    control_each_substep = True

    def __init__(self, cfg: OperationalSpaceControllerActionCfg, env: VectorEnv) -> None:
        """Look up names.

        Raises:
            ConfigurationError: For names that match nothing or several, joints without motors, and
                settings that do not go together.
        """
        device = env.device
        self._sim, self._cfg = env.sim, cfg
        self.frame = ControlledFrame(
            "an operational-space action",
            env,
            SceneEntityCfg(cfg.asset_name, cfg.joint_names, cfg.body_name),
            cfg.body_offset,
        )
        joints = self.frame.joint_names
        self._controller = OperationalSpaceController(cfg.controller_cfg, len(joints), device)
        self.dim = sum(self._controller.sizes)
        if cfg.controller_cfg.gravity_compensation:
            refuse_compensated("An operational-space action", env, joints)
        self._dynamics = JointSpace(env, joints) if self._needs_dynamics() else None
        self._motors = Motors("an operational-space action", env, joints, self.frame.actuators)
        self._scale = torch.tensor(self._scales(), device=device)
        self._clip = Bounds(cfg.clip, (), device)
        self._task_body: int | None = None
        if cfg.task_frame_rel_path is not None:
            task = SceneEntityCfg(cfg.task_frame_rel_path)
            self._task_body = resolve_entity(task, env.sim.model, device).root_body
        self._posture = self._find_posture(env)
        self._contacts = None
        if cfg.contacts is not None:
            self._contacts = cfg.contacts.columns(env.model_spec, env.sim.model, device)
            self._row = self._contacts.primaries.index(self.frame.body_name)

    def apply(self, actions: torch.Tensor) -> None:
        commands = actions * self._scale
        self._clip.apply(commands)
        root = self.frame.root_pose()
        task = None
        if self._task_body is not None:
            data = self._sim.data
            pose = data.xpos[:, self._task_body], data.xquat[:, self._task_body]
            task = subtract_frame_transforms(*root, *pose)
        pose = subtract_frame_transforms(*root, *self.frame.pose())
        self._controller.set_command(commands, pose, task)

    def control(self) -> None:
        self._motors.write(self._controller.compute(self._motion(), self._posture))

    def _motion(self) -> Motion:
        """Return the state in the frame of the robot's topmost body."""
        frame, cfg = self.frame, self._cfg.controller_cfg
        root, (pos, quat) = frame.root_pose(), frame.pose()
        into_base = matrix_from_quat(root[1]).mT.unsqueeze(1)
        jacobian = frame.jacobian(pos).unflatten(1, (2, 3))
        velocity = frame.velocity(pos).view(-1, 2, 3, 1)
        motion = Motion(
            pose=subtract_frame_transforms(*root, pos, quat),
            velocity=(into_base @ velocity).flatten(1),
            jacobian=(into_base @ jacobian).flatten(1, 2),
            joint_pos=frame.joint_pos,
            joint_vel=frame.joint_vel,
        )
        if self._dynamics is not None:
            if needs_mass_matrix(cfg):
                motion.mass_matrix = self._dynamics.mass_matrix()
            if cfg.gravity_compensation:
                motion.gravity = self._dynamics.gravity()
        if self._contacts is not None:
            read = self._contacts.read(self._sim.data.sensordata)
            force = self._contacts.forces(read)[:, self._row].sum(dim=1)
            motion.contact_force = (into_base[:, 0] @ force.unsqueeze(2)).squeeze(2)
        return motion

    def _needs_dynamics(self) -> bool:
        cfg = self._cfg.controller_cfg
        return needs_mass_matrix(cfg) or cfg.gravity_compensation

    def _scales(self) -> list[float]:
        """Return the scale of each number of the action."""
        cfg, found = self._cfg, []
        for kind in cfg.controller_cfg.target_types:
            if kind == "wrench_abs":
                found += [cfg.wrench_scale] * 6
            else:
                size = 4 if kind == "pose_abs" else 3
                found += [cfg.position_scale] * 3 + [cfg.orientation_scale] * size
        gains = [cfg.stiffness_scale] * 6 + [cfg.damping_ratio_scale] * 6
        return [*found, *gains[: self.dim - len(found)]]

    def _find_posture(self, env: VectorEnv) -> torch.Tensor | None:
        """Return the posture, ``(1, num_joints)``; None: zeros, or none at all."""
        kind, control = self._cfg.nullspace_joint_pos_target, self._cfg.controller_cfg
        if (kind == "none") != (control.nullspace_control == "none"):
            raise ConfigurationError(
                f"nullspace_joint_pos_target is {kind!r} with nullspace_control="
                f"{control.nullspace_control!r}, but both must be 'none', or neither."
            )
        if kind == "default":
            return env.default_qpos[:, self._joint_columns(env)]
        if kind == "center":
            low, high = position_limits(env, self.frame.joint_names)
            if not bool((high - low).isfinite().all()):
                raise ConfigurationError(
                    "nullspace_joint_pos_target is 'center', but not all joints have limits. Use "
                    "'default' or 'zero'."
                )
            return (0.5 * (low + high)).unsqueeze(0)
        return None

    def _joint_columns(self, env: VectorEnv) -> list[int]:
        model = env.sim.model
        return [int(model.jnt_qposadr[model.joint(name).id]) for name in self.frame.joint_names]
