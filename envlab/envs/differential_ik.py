"""Differential inverse kinematics over a batch: joint displacements that move a frame to a pose.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import mujoco
import torch

from envlab.envs.math import quat_box_minus
from envlab.errors import ConfigurationError

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
