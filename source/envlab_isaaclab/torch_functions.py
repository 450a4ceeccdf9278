"""``isaacsim.core.utils.torch``: rotations and transformations of direct tasks.

Quaternions are (w, x, y, z). Functions can be called by TorchScript, as Isaac Lab's own of
:mod:`isaaclab.utils.math` can, which most of these are.
"""

from __future__ import annotations

import sys

import torch
from isaaclab.utils.math import (
    combine_frame_transforms,
    euler_xyz_from_quat,
    normalize,
    quat_apply,
    quat_apply_inverse,
    quat_conjugate,
    quat_from_angle_axis,
    quat_from_euler_xyz,
    quat_mul,
    wrap_to_pi,
)
from isaaclab.utils.seed import configure_seed

__all__ = [
    "compute_heading_and_up",
    "compute_rot",
    "get_basis_vector",
    "get_euler_xyz",
    "maths",
    "normalize",
    "normalize_angle",
    "quat_apply",
    "quat_conjugate",
    "quat_diff_rad",
    "quat_from_angle_axis",
    "quat_from_euler_xyz",
    "quat_mul",
    "quat_rotate",
    "quat_rotate_inverse",
    "quat_unit",
    "scale",
    "set_seed",
    "tensor_clamp",
    "tf_apply",
    "tf_combine",
    "tf_inverse",
    "tf_vector",
    "torch_rand_float",
    "unscale",
]

quat_rotate = get_basis_vector = quat_apply
quat_rotate_inverse = quat_apply_inverse
quat_unit = normalize
normalize_angle = wrap_to_pi
get_euler_xyz = euler_xyz_from_quat
set_seed = configure_seed
maths = sys.modules[__name__]


@torch.jit.script
def tf_combine(
    q1: torch.Tensor, t1: torch.Tensor, q2: torch.Tensor, t2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rotation and translation of the second transformation, then the first."""
    t, q = combine_frame_transforms(t1, q1, t2, q2)
    return q, t


@torch.jit.script
def tf_inverse(q: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inverse of a transformation."""
    back = quat_conjugate(q)
    return back, -quat_apply(back, t)


@torch.jit.script
def tf_apply(q: torch.Tensor, t: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return transformed points."""
    return quat_apply(q, v) + t


@torch.jit.script
def tf_vector(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return rotated vectors."""
    return quat_apply(q, v)


@torch.jit.script
def quat_diff_rad(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the angle between two rotations, in rad."""
    between = quat_mul(a, quat_conjugate(b))
    return 2.0 * torch.asin(torch.linalg.vector_norm(between[:, 1:], dim=-1).clamp(max=1.0))


@torch.jit.script
def compute_heading_and_up(
    torso_rotation: torch.Tensor,
    inv_start_rot: torch.Tensor,
    to_target: torch.Tensor,
    vec0: torch.Tensor,
    vec1: torch.Tensor,
    up_idx: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a torso's turn from its start, and its up and forward vectors.

    Returns:
        The turn, the up vector's component ``up_idx``, the forward vector's component towards
        the target, and both vectors.
    """
    turn = quat_mul(torso_rotation, inv_start_rot)
    up, forward = quat_apply(turn, vec1), quat_apply(turn, vec0)
    towards = (forward * normalize(to_target)).sum(dim=-1)
    return turn, up[:, up_idx], towards, up, forward


@torch.jit.script
def compute_rot(
    torso_quat: torch.Tensor,
    velocity: torch.Tensor,
    ang_velocity: torch.Tensor,
    targets: torch.Tensor,
    torso_positions: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a torso's velocities in its own frame, its Euler angles, and the target's direction.

    Isaac Sim takes the direction from the components 2 and 0 of positions, not 1 and 0; so does
    this.
    """
    roll, pitch, yaw = euler_xyz_from_quat(torso_quat)
    place = targets - torso_positions
    angle = torch.atan2(place[:, 2], place[:, 0]) - yaw
    linear = quat_apply_inverse(torso_quat, velocity)
    return linear, quat_apply_inverse(torso_quat, ang_velocity), roll, pitch, yaw, angle


@torch.jit.script
def unscale(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Return values of a range as values from -1 to 1."""
    return (2.0 * x - upper - lower) / (upper - lower)


@torch.jit.script
def scale(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Return values from -1 to 1 as values of a range."""
    return 0.5 * (x * (upper - lower) + upper + lower)


@torch.jit.script
def tensor_clamp(t: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Return values within bounds."""
    return torch.maximum(torch.minimum(t, high), low)


def torch_rand_float(
    lower: float, upper: float, shape: tuple[int, ...], device: str
) -> torch.Tensor:
    """Return uniform random numbers."""
    return (upper - lower) * torch.rand(*shape, device=device) + lower
