"""Actions in the space of a frame of the robot, by differential inverse kinematics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from envlab.envs.differential_ik import (
    DifferentialIKControllerCfg,
    GeometricJacobian,
    joint_displacements,
    pose_error,
)
from envlab.envs.entities import SceneEntityCfg, columns, joint_actuators, resolve_entity
from envlab.envs.frames import OffsetCfg
from envlab.envs.managers.action import ActionTerm, ActionTermCfg
from envlab.envs.math import (
    combine_frame_transforms,
    normalize,
    quat_apply,
    quat_from_rotation_vector,
    quat_mul,
)
from envlab.envs.mdp.controls import Bounds
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class DifferentialInverseKinematicsActionCfg(ActionTermCfg):
    """Goals or displacements for a frame of the robot; for position actuators.

    Commands are in the frame of the robot's topmost body: positions in m; orientations as (w, x, y,
    z), or, if relative, as rotation vectors in rad. The goal is converted to joint positions once
    per environment step (Isaac Lab: once per physics step). Needs ``xpos``,
    ``xquat``, ``xanchor`` and ``xaxis`` in ``env.sim.data_fields``.
    """

    joint_names: str | list[str]
    """Joints to move; regular expressions."""
    body_name: str
    """Body to which the frame is fixed."""
    body_offset: OffsetCfg = field(default_factory=OffsetCfg)
    """The frame, relative to the body's."""
    scale: float = 1.0
    """Command per unit of action; :attr:`clip` bounds the result."""
    controller: DifferentialIKControllerCfg = field(default_factory=DifferentialIKControllerCfg)
    """Kind of command and method."""

    def build(self, env: VectorEnv) -> DifferentialInverseKinematicsAction:
        return DifferentialInverseKinematicsAction(self, env)


class DifferentialInverseKinematicsAction(ActionTerm):
    """The term of a :class:`DifferentialInverseKinematicsActionCfg`.

    Raises:
        ConfigurationError: If the body's name matches several.
    """

    def __init__(self, cfg: DifferentialInverseKinematicsActionCfg, env: VectorEnv) -> None:
        model, device = env.sim.model, env.device
        entity = resolve_entity(
            SceneEntityCfg(cfg.asset_name, cfg.joint_names, cfg.body_name), model, device
        )
        if len(entity.body_names) != 1:
            raise ConfigurationError(
                f"The body_name {cfg.body_name!r} of an inverse kinematics action matches "
                f"{', '.join(entity.body_names)}, but must match one body."
            )
        self._body = model.body(entity.body_names[0]).id
        self._root = entity.root_body
        self._qpos_ids = entity.qpos_ids
        self._ctrl_ids = torch.tensor(joint_actuators(model, entity.joint_names), device=device)
        self._jacobian = GeometricJacobian(model, entity.joint_names, self._body, device)
        self._offset_pos = torch.tensor([cfg.body_offset.pos], device=device)
        self._offset_quat = torch.tensor([cfg.body_offset.rot], device=device)
        self._cfg, self._sim, self._clip = cfg, env.sim, Bounds(cfg.clip, (), device)
        self._params = cfg.controller.params()
        self.dim = cfg.controller.action_dim

    def frame_pose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the frame's position in m, ``(num_envs, 3)``, and (w, x, y, z), in the world."""
        data = self._sim.data
        pos, quat = data.xpos[:, self._body], data.xquat[:, self._body]
        offset_pos = self._offset_pos.expand_as(pos)
        return combine_frame_transforms(pos, quat, offset_pos, self._offset_quat.expand_as(quat))

    def apply(self, actions: torch.Tensor) -> None:
        commands = actions * self._cfg.scale
        self._clip.apply(commands)
        data, controller = self._sim.data, self._cfg.controller
        pos, quat = self.frame_pose()
        error = pose_error(pos, quat, *self.goal(commands, pos, quat))
        jacobian = self._jacobian(data.xanchor, data.xaxis, pos)
        if controller.command_type == "position":
            jacobian, error = jacobian[:, :3], error[:, :3]
        moves = joint_displacements(jacobian, error, controller.ik_method, self._params)
        targets = columns(data.qpos, self._qpos_ids) + moves
        self._sim.ctrl.index_copy_(1, self._ctrl_ids, targets)

    def goal(
        self, commands: torch.Tensor, pos: torch.Tensor, quat: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the frame's goal in the world, by default with its current orientation."""
        data, controller = self._sim.data, self._cfg.controller
        root_pos, root_quat = data.xpos[:, self._root], data.xquat[:, self._root]
        if not controller.use_relative_mode:
            goal = root_pos + quat_apply(root_quat, commands[:, :3])
            if controller.command_type == "position":
                return goal, quat
            return goal, quat_mul(root_quat, normalize(commands[:, 3:]))
        goal = pos + quat_apply(root_quat, commands[:, :3])
        if controller.command_type == "position":
            return goal, quat
        turn = quat_from_rotation_vector(quat_apply(root_quat, commands[:, 3:]))
        return goal, quat_mul(turn, quat)
