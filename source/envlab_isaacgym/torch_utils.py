"""``isaacgym.torch_utils``: quaternions (x, y, z, w), transforms and random numbers in torch.

Everything here can be called from TorchScript. ``from isaacgym.torch_utils import *`` brings
``torch`` and ``np`` along, as task code expects.
"""

from __future__ import annotations

import numpy as np
import torch


def to_torch(x, dtype=torch.float, device=None, requires_grad=False):  # type: ignore[no-untyped-def]
    """Return values as a tensor, on the first GPU unless a device is given or there is no GPU."""
    device = device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    return torch.tensor(x, dtype=dtype, device=device, requires_grad=requires_grad)


def normalize(x: torch.Tensor, eps: float = 1e-9) -> torch.Tensor:
    """Return vectors with length 1; vectors shorter than ``eps`` stay short."""
    return x / x.norm(p=2, dim=-1, keepdim=True).clamp(min=eps)


def quat_unit(a: torch.Tensor) -> torch.Tensor:
    """Return quaternions with length 1."""
    return normalize(a)


def quat_conjugate(a: torch.Tensor) -> torch.Tensor:
    """Return the opposite rotations."""
    return torch.cat((-a[..., :3], a[..., 3:]), dim=-1)


def quat_mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the rotations ``b`` followed by ``a``."""
    shape = a.shape
    a, b = a.reshape(-1, 4), b.reshape(-1, 4)
    a_vector, a_real, b_vector, b_real = a[:, :3], a[:, 3:], b[:, :3], b[:, 3:]
    vector = a_real * b_vector + b_real * a_vector + torch.cross(a_vector, b_vector, dim=-1)
    real = a_real * b_real - (a_vector * b_vector).sum(dim=-1, keepdim=True)
    return torch.cat((vector, real), dim=-1).view(shape)


def quat_apply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the vectors ``b`` rotated by ``a``."""
    shape = b.shape
    a, b = a.reshape(-1, 4), b.reshape(-1, 3)
    axis = a[:, :3]
    twice = 2.0 * torch.cross(axis, b, dim=-1)
    return (b + a[:, 3:] * twice + torch.cross(axis, twice, dim=-1)).view(shape)


def quat_rotate(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return the vectors ``v``, ``(n, 3)``, rotated by ``q``, ``(n, 4)``."""
    axis = q[:, :3]
    twice = 2.0 * torch.cross(axis, v, dim=-1)
    return v + q[:, 3:] * twice + torch.cross(axis, twice, dim=-1)


def quat_rotate_inverse(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return the vectors ``v``, ``(n, 3)``, rotated by the inverses of ``q``, ``(n, 4)``."""
    axis = q[:, :3]
    twice = 2.0 * torch.cross(v, axis, dim=-1)
    return v + q[:, 3:] * twice + torch.cross(twice, axis, dim=-1)


def quat_from_angle_axis(angle: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
    """Return rotations by angles in radians around axes."""
    half = (angle / 2).unsqueeze(-1)
    return quat_unit(torch.cat((normalize(axis) * half.sin(), half.cos()), dim=-1))


def normalize_angle(x: torch.Tensor) -> torch.Tensor:
    """Return angles between -pi and pi."""
    return torch.atan2(torch.sin(x), torch.cos(x))


def tf_inverse(q: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the transforms that undo rotations ``q`` followed by translations ``t``."""
    inverse = quat_conjugate(q)
    return inverse, -quat_apply(inverse, t)


def tf_apply(q: torch.Tensor, t: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return points rotated by ``q`` and translated by ``t``."""
    return quat_apply(q, v) + t


def tf_vector(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return vectors rotated by ``q``."""
    return quat_apply(q, v)


def tf_combine(
    q1: torch.Tensor, t1: torch.Tensor, q2: torch.Tensor, t2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the second transforms followed by the first ones."""
    return quat_mul(q1, q2), quat_apply(q1, t2) + t1


def get_basis_vector(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return vectors rotated by ``q``."""
    return quat_rotate(q, v)


def get_axis_params(value, axis_idx, x_value=0.0, dtype=float, n_dims=3):  # type: ignore[no-untyped-def]
    """Return a list of zeros with ``value`` at one place, and ``x_value`` at the first."""
    numbers = [0.0] * n_dims
    numbers[0] = x_value
    numbers[axis_idx] = value
    return [dtype(number) for number in numbers]


def copysign(a: float, b: torch.Tensor) -> torch.Tensor:
    """Return ``a`` with the signs of ``b``."""
    return torch.copysign(torch.full_like(b, a), b)


def get_euler_xyz(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return roll, pitch and yaw between 0 and 2 pi, ``(n,)`` each, of ``q``, ``(n, 4)``."""
    x, y, z, w = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    roll = torch.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = torch.asin((2.0 * (w * y - z * x)).clamp(-1.0, 1.0))
    yaw = torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    turn = 2.0 * np.pi
    return roll % turn, pitch % turn, yaw % turn


def quat_from_euler_xyz(roll: torch.Tensor, pitch: torch.Tensor, yaw: torch.Tensor) -> torch.Tensor:
    """Return rotations by ``roll`` around x, then ``pitch`` around y, then ``yaw`` around z."""
    cr, sr = torch.cos(roll / 2), torch.sin(roll / 2)
    cp, sp = torch.cos(pitch / 2), torch.sin(pitch / 2)
    cy, sy = torch.cos(yaw / 2), torch.sin(yaw / 2)
    return torch.stack(
        (
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ),
        dim=-1,
    )


def torch_rand_float(
    lower: float, upper: float, shape: tuple[int, int], device: str
) -> torch.Tensor:
    """Return random numbers between two bounds."""
    return (upper - lower) * torch.rand(shape, device=device) + lower


def torch_rand_sign(shape: tuple[int, int], device: str) -> torch.Tensor:
    """Return -1.0 and 1.0 at random; Deep-Whole-Body-Control takes it from here."""
    return 2.0 * torch.randint(0, 2, shape, device=device) - 1.0


def torch_random_dir_2(shape: tuple[int, int], device: str) -> torch.Tensor:
    """Return random directions in the plane, ``(n, 2)`` for a shape ``(n, 1)``."""
    angle = torch_rand_float(-np.pi, np.pi, shape, device).squeeze(-1)
    return torch.stack((torch.cos(angle), torch.sin(angle)), dim=-1)


def tensor_clamp(t: torch.Tensor, min_t: torch.Tensor, max_t: torch.Tensor) -> torch.Tensor:
    """Return values within bounds, which are tensors."""
    return torch.max(torch.min(t, max_t), min_t)


def scale(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Map -1..1 to ``lower``..``upper``."""
    return 0.5 * (x + 1.0) * (upper - lower) + lower


def unscale(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Map ``lower``..``upper`` to -1..1."""
    return (2.0 * x - upper - lower) / (upper - lower)


def unscale_np(x, lower, upper):  # type: ignore[no-untyped-def]
    """Map ``lower``..``upper`` to -1..1, in numpy."""
    return (2.0 * x - upper - lower) / (upper - lower)
