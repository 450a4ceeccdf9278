"""The frame that an action moves in space: its pose, its velocity, and inverse kinematics.

Differential inverse kinematics gives the joint displacements that move it to a pose, over a batch.
Methods and their default parameters have Isaac Lab's names. With the geometric Jacobian ``J`` of
the frame and its pose error ``e``, the displacement is

- ``dls``: ``J^T (J J^T + lambda^2 I)^-1 e`` (Nakamura, Hanafusa: "Inverse kinematic solutions with
  singularity robustness for robot manipulator control", 1986),
- ``pinv``: ``k J^+ e``,
- ``svd``: the same, leaving out singular values below a limit,
- ``trans``: ``k J^T e`` (Buss: "Introduction to inverse kinematics", 2004).

``dls`` and ``trans`` never wait for a GPU; ``pinv`` and ``svd`` do, because torch decomposes a
matrix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import mujoco
import torch

from envlab.envs.entities import SceneEntityCfg, columns, joint_actuators, resolve_entity
from envlab.envs.entity_names import listed
from envlab.envs.math import combine_frame_transforms, quat_box_minus
from envlab.envs.spec_sensors import OffsetCfg
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


IK_PARAMS: dict[str, dict[str, float]] = {
    "dls": {"lambda_val": 0.01},
    "pinv": {"k_val": 1.0},
    "svd": {"k_val": 1.0, "min_singular_value": 1e-5},
    "trans": {"k_val": 1.0},
}
"""Default parameters by method."""


@dataclass(kw_only=True)
class DifferentialIKControllerCfg:
    """Conversion of commands to joint displacements."""

    command_type: Literal["position", "pose"] = "pose"
    """Whether a command gives only the frame's position, or also its orientation."""
    use_relative_mode: bool = False
    """Whether a command is a displacement of the frame rather than its goal."""
    ik_method: Literal["dls", "pinv", "svd", "trans"] = "dls"
    """See the module."""
    ik_params: dict[str, float] = field(default_factory=dict)
    """Parameters that differ from the method's defaults, :data:`IK_PARAMS`."""

    @property
    def action_dim(self) -> int:
        """Size of a command: 3 for positions; a pose is 6 if relative, else 7."""
        if self.command_type == "position":
            return 3
        return 6 if self.use_relative_mode else 7

    def params(self) -> dict[str, float]:
        """Return the method's parameters.

        Raises:
            ConfigurationError: For an unknown method or parameter.
        """
        if self.ik_method not in IK_PARAMS:
            raise ConfigurationError(
                f"ik_method is {self.ik_method!r}, but must be one of {', '.join(IK_PARAMS)}."
            )
        defaults = IK_PARAMS[self.ik_method]
        for name in self.ik_params:
            if name not in defaults:
                raise ConfigurationError(
                    f"ik_params has the key {name!r}, but {self.ik_method!r} has only "
                    f"{', '.join(defaults)}."
                )
        return defaults | self.ik_params


class GeometricJacobian:
    """The Jacobian of points of a body in hinge and slide joints, in the world frame.

    Raises:
        ConfigurationError: If a joint is of another kind, or does not move the body.
    """

    def __init__(
        self, model: mujoco.MjModel, joint_names: Sequence[str], body: int, device: torch.device
    ) -> None:
        ids = [model.joint(name).id for name in joint_names]
        ancestors = set()
        while body:
            ancestors.add(body)
            body = int(model.body_parentid[body])
        slides = []
        for name, joint in zip(joint_names, ids, strict=True):
            kind = int(model.jnt_type[joint])
            if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
                raise ConfigurationError(
                    f"Inverse kinematics moves the joint {name!r}, which is neither a hinge nor a "
                    "slide. Name others."
                )
            if int(model.jnt_bodyid[joint]) not in ancestors:
                raise ConfigurationError(
                    f"Inverse kinematics moves the joint {name!r}, which does not move its body. "
                    "Name only joints between the base and that body."
                )
            slides.append(kind == mujoco.mjtJoint.mjJNT_SLIDE)
        self._ids = torch.tensor(ids, device=device)
        self._is_slide = torch.tensor(slides, device=device).unsqueeze(1)

    def __call__(
        self, anchors: torch.Tensor, axes: torch.Tensor, point: torch.Tensor
    ) -> torch.Tensor:
        """Return it, ``(num_envs, 6, num_joints)``: rows of linear, then of angular velocity.

        Args:
            anchors: MuJoCo's ``xanchor``, ``(num_envs, njnt, 3)``.
            axes: MuJoCo's ``xaxis``, ``(num_envs, njnt, 3)``.
            point: A point of the body, in the world, ``(num_envs, 3)``.
        """
        axis, arm = axes[:, self._ids], point.unsqueeze(1) - anchors[:, self._ids]
        linear = torch.where(self._is_slide, axis, torch.linalg.cross(axis, arm))
        angular = torch.where(self._is_slide, 0.0, axis)
        return torch.cat((linear, angular), dim=2).transpose(1, 2)


def pose_error(
    pos: torch.Tensor, quat: torch.Tensor, goal_pos: torch.Tensor, goal_quat: torch.Tensor
) -> torch.Tensor:
    """Return the error to a goal pose, ``(num_envs, 6)``: in m, then as a rotation vector in rad.

    A goal quaternion of zeros asks for no rotation.
    """
    return torch.cat((goal_pos - pos, quat_box_minus(goal_quat, quat)), dim=1)


def joint_displacements(
    jacobian: torch.Tensor, error: torch.Tensor, method: str, params: Mapping[str, float]
) -> torch.Tensor:
    """Return displacements, ``(num_envs, num_joints)``, that reduce a pose error.

    Args:
        jacobian: ``(num_envs, k, num_joints)``.
        error: In the rows of the Jacobian, ``(num_envs, k)``.
        method: A key of :data:`IK_PARAMS`.
        params: All of its parameters.
    """
    transposed, error = jacobian.transpose(1, 2), error.unsqueeze(2)
    if method == "trans":
        return params["k_val"] * (transposed @ error).squeeze(2)
    if method == "dls":
        damping = params["lambda_val"] ** 2 * torch.eye(jacobian.shape[1], device=error.device)
        # solve() would wait for a GPU to report success; with damping it always succeeds.
        factor, _ = torch.linalg.cholesky_ex(jacobian @ transposed + damping)
        return (transposed @ torch.cholesky_solve(error, factor)).squeeze(2)
    if method == "pinv":
        return params["k_val"] * (torch.linalg.pinv(jacobian) @ error).squeeze(2)
    left, values, right = torch.linalg.svd(jacobian, full_matrices=False)
    inverse = torch.where(values > params["min_singular_value"], 1.0 / values, 0.0)
    scaled = inverse.unsqueeze(2) * (left.transpose(1, 2) @ error)
    return params["k_val"] * (right.transpose(1, 2) @ scaled).squeeze(2)


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

        See :class:`~envlab.envs.controlled_frame.GeometricJacobian`.
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
