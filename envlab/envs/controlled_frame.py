"""The frame that an action moves in space: its pose, its velocity, and its Jacobian."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import mujoco
import torch

from envlab.envs.differential_ik import GeometricJacobian
from envlab.envs.entities import SceneEntityCfg, columns, joint_actuators, resolve_entity
from envlab.envs.entity_names import listed
from envlab.envs.math import combine_frame_transforms
from envlab.envs.spec_sensors import OffsetCfg
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

Pose = tuple[torch.Tensor, torch.Tensor]
"""Positions in m, ``(num_envs, 3)``, and orientations (w, x, y, z), ``(num_envs, 4)``."""
FRAME_FIELDS = ("xpos", "xquat", "xanchor", "xaxis")
"""Data fields that a :class:`ControlledFrame` reads."""
_SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


class ControlledFrame:
    """A frame fixed to a body, and the joints by which an action moves it.

    Attributes:
        body_name: The body.
        root_body: The topmost body of the robot, in whose frame commands are given.
        joint_names: The joints, in the model's order.
        actuators: Their actuators, columns of ``ctrl``, int64 ``(num_joints,)``.
    """

    def __init__(
        self, what: str, env: VectorEnv, parts: SceneEntityCfg, offset: OffsetCfg | None = None
    ) -> None:
        """Look up names.

        Args:
            what: What asks for it, for errors: ``"an inverse kinematics action"``.
            env: The environment.
            parts: The joints, and one body, site or geom, by their names.
            offset: The frame, relative to that body, site or geom.

        Raises:
            ConfigurationError: If the name matches several, or a joint does not move the frame.
        """
        model, device = env.sim.model, env.device
        self._sim = env.sim
        entity = resolve_entity(parts, model, device)
        self._kind, self._id = _one_part(what, model, parts, entity)
        self._body = self._id
        if self._kind != "body":
            self._body = int(getattr(model, f"{self._kind}_bodyid")[self._id])
        self._place = tuple(
            env.nominal_rows(f"{self._kind}_{name}")[:, self._id] for name in ("pos", "quat")
        )
        offset = offset or OffsetCfg()
        self._offset = tuple(
            torch.tensor([values], dtype=torch.float32, device=device)
            for values in (offset.pos, offset.rot)
        )
        self.body_name, self.root_body = model.body(self._body).name, entity.root_body
        self.joint_names = entity.joint_names
        self._qpos_ids, self._qvel_ids = entity.qpos_ids, entity.qvel_ids
        names = [re.escape(name) for name in self.joint_names]
        self.actuators = torch.tensor(joint_actuators(model, names), device=device)
        self._jacobian = GeometricJacobian(model, self.joint_names, self._body, device)
        chain = _joints_above(model, self._body)
        self._chain = GeometricJacobian(
            model, [model.joint(joint).name for joint in chain], self._body, device
        )
        self._chain_ids = torch.tensor([int(model.jnt_dofadr[i]) for i in chain], device=device)

    @property
    def joint_pos(self) -> torch.Tensor:
        """Positions of the joints, ``(num_envs, num_joints)``."""
        return columns(self._sim.data.qpos, self._qpos_ids)

    @property
    def joint_vel(self) -> torch.Tensor:
        """Their velocities."""
        return columns(self._sim.data.qvel, self._qvel_ids)

    def pose(self) -> Pose:
        """Return the frame's pose in the world."""
        data = self._sim.data
        pos, quat = data.xpos[:, self._body], data.xquat[:, self._body]
        if self._kind != "body":
            pos, quat = _within(pos, quat, *map(self._placed, ("pos", "quat"), self._place))
        return _within(pos, quat, *self._offset)

    def root_pose(self) -> Pose:
        """Return the pose of the robot's topmost body in the world."""
        data = self._sim.data
        return data.xpos[:, self.root_body], data.xquat[:, self.root_body]

    def jacobian(self, point: torch.Tensor) -> torch.Tensor:
        """Return that of the joints at a point of the body, ``(num_envs, 6, num_joints)``.

        See :class:`~envlab.envs.differential_ik.GeometricJacobian`.
        """
        return self._jacobian(self._sim.data.xanchor, self._sim.data.xaxis, point)

    def velocity(self, point: torch.Tensor) -> torch.Tensor:
        """Return how a point of the body moves by all joints above it, a free one excepted.

        It is linear in m/s, then angular in rad/s, in the axes of the world, ``(num_envs, 6)``.
        """
        chain = self._chain(self._sim.data.xanchor, self._sim.data.xaxis, point)
        speeds = self._sim.data.qvel[:, self._chain_ids].unsqueeze(2)
        return (chain @ speeds).squeeze(2)

    def _placed(self, name: str, nominal: torch.Tensor) -> torch.Tensor:
        """Return the site's or geom's position or orientation on its body."""
        field = f"{self._kind}_{name}"
        return self._sim.params[field][:, self._id] if field in self._sim.params else nominal


def _one_part(
    what: str, model: mujoco.MjModel, parts: SceneEntityCfg, entity: object
) -> tuple[str, int]:
    """Return the kind of what ``parts`` name besides joints, and its index in the model."""
    kind = next(one for one in ("site", "geom", "body") if getattr(parts, f"{one}_names"))
    number = getattr(model, f"n{kind}")
    chosen = torch.arange(number)[_on_cpu(getattr(entity, f"{kind}_ids"))].tolist()
    if len(chosen) != 1:
        given = listed(getattr(parts, f"{kind}_names"))
        raise ConfigurationError(
            f"The {kind} {', '.join(map(repr, given))} of {what} matches "
            f"{', '.join(getattr(model, kind)(i).name for i in chosen)}, but must match one {kind}."
        )
    return kind, chosen[0]


def _on_cpu(ids: slice | torch.Tensor) -> slice | torch.Tensor:
    return ids if isinstance(ids, slice) else ids.cpu()


def _joints_above(model: mujoco.MjModel, body: int) -> list[int]:
    """Return the hinges and slides between the world and a body, in the model's order."""
    bodies = set()
    while body:
        bodies.add(body)
        body = int(model.body_parentid[body])
    return [
        joint
        for joint in range(model.njnt)
        if int(model.jnt_bodyid[joint]) in bodies and int(model.jnt_type[joint]) in _SCALAR
    ]


def _within(
    pos: torch.Tensor, quat: torch.Tensor, child_pos: torch.Tensor, child_quat: torch.Tensor
) -> Pose:
    return combine_frame_transforms(pos, quat, child_pos.expand_as(pos), child_quat.expand_as(quat))
