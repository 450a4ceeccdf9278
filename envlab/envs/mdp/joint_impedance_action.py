"""Actions on joints by efforts, with stiffness and damping that commands may set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from envlab.envs.entities import columns
from envlab.envs.joint_space import JOINT_SPACE_FIELDS, JointSpace, refuse_compensated
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.mdp.actions import DrivenJoints
from envlab.envs.mdp.controls import Bounds, Motors
from envlab.envs.mdp.events import position_limits
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
