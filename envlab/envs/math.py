"""Rotations and frames over a batch. Quaternions are (w, x, y, z), as MuJoCo's; names, Isaac Lab's.

:func:`convert_quat` converts from and to (x, y, z, w), as in Isaac Lab 3, Isaac Gym and ROS.
Formulas are the textbook ones (Diebel: "Representing attitude", Stanford 2006).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

import torch

from envlab.envs.distributions import (  # noqa: F401 - Isaac Lab has them in one module
    sample_cylinder,
    sample_gaussian,
    sample_log_uniform,
    sample_triangle,
    sample_uniform,
)
from envlab.envs.projection import (  # noqa: F401
    create_rotation_matrix_from_view,
    make_pose,
    orthogonalize_perspective_depth,
    pose_in_A_to_pose_in_B,
    pose_inv,
    project_points,
    transform_poses_from_frame_A_to_frame_B,
    unmake_pose,
    unproject_depth,
)
from envlab.errors import ConfigurationError

# Components are computed as whole rows: four operations, where a formula for each has up to forty.
# On a CPU, that is faster at any number of environments; on a GPU, each operation is a kernel to
# launch. Rounding is that of the formulas: signs and powers of two are exact, and the order of
# additions is theirs.

_Form = tuple[float, float, str, float, str]
"""``offset + scale * (first + sign * second)``, in this order; a product is written ``"wx"``."""
_GRAVITY: tuple[_Form, ...] = (
    (0.0, 2.0, "wy", -1.0, "xz"),
    (0.0, -2.0, "yz", 1.0, "wx"),
    (-1.0, 2.0, "xx", 1.0, "yy"),
)
# An offset of -0.0 changes nothing, not even the sign of a zero.
_YAW: tuple[_Form, ...] = ((-0.0, 2.0, "wz", 1.0, "xy"), (1.0, -2.0, "yy", 1.0, "zz"))
_EULER: tuple[_Form, ...] = (
    *((-0.0, 2.0, "wx", 1.0, "yz"), (1.0, -2.0, "xx", 1.0, "yy"), (-0.0, 2.0, "wy", -1.0, "xz")),
    *_YAW,
)
_MATRIX: tuple[_Form, ...] = (
    *((1.0, -2.0, "yy", 1.0, "zz"), (-0.0, 2.0, "xy", -1.0, "wz"), (-0.0, 2.0, "xz", 1.0, "wy")),
    *((-0.0, 2.0, "xy", 1.0, "wz"), (1.0, -2.0, "xx", 1.0, "zz"), (-0.0, 2.0, "yz", -1.0, "wx")),
    *((-0.0, 2.0, "xz", -1.0, "wy"), (-0.0, 2.0, "yz", 1.0, "wx"), (1.0, -2.0, "xx", 1.0, "yy")),
)
_AXES = tuple(form for place, form in enumerate(_MATRIX) if place % 3 < 2)


def _evaluate(forms: tuple[_Form, ...], q: torch.Tensor) -> torch.Tensor:
    """Return the values of forms in the components of ``q``, ``(..., 4)``: ``(num_forms, ...)``."""
    columns, signs, scales, offsets = _form_table(forms, q.device, q.dtype, q.dim() - 1)
    factors = q.movedim(-1, 0).index_select(0, columns).unflatten(0, (2, 2, len(forms)))
    first, second = (factors[0] * factors[1]).unbind()
    return torch.addcmul(offsets, torch.addcmul(first, second, signs), scales)


@functools.cache
def _form_table(
    forms: tuple[_Form, ...], device: torch.device, dtype: torch.dtype, dims: int
) -> list[torch.Tensor]:
    """Return the columns of left, then of right factors, the signs, scales and offsets."""
    offsets, scales, first, signs, second = zip(*forms, strict=True)
    products = [*first, *second]
    columns = ["wxyz".index(product[side]) for side in (0, 1) for product in products]
    tables = (_over_batch(table, device, dims).to(dtype) for table in (signs, scales, offsets))
    return [torch.tensor(columns, device=device), *tables]


def _product(a: torch.Tensor, b: torch.Tensor, inverts: Literal["a", "b", ""] = "") -> torch.Tensor:
    """Return the components of the product of quaternions ``(..., 4)`` as rows, ``(4, ...)``."""
    a, b = torch.broadcast_tensors(a, b)
    columns, signs = _product_table(b.device, b.dim() - 1, inverts)
    partners = b.movedim(-1, 0).index_select(0, columns).unflatten(0, (4, 4))
    return (partners * (signs * a.movedim(-1, 0))).sum(dim=1)


@functools.cache
def _product_table(
    device: torch.device, dims: int, inverts: Literal["a", "b", ""]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which component of ``b`` goes with w, x, y, z of ``a``, and with which sign.

    Four for each component of the product: ``(16,)``, and ``(4, 4)`` over ``dims`` of a batch.
    """
    columns = [*(0, 1, 2, 3), *(1, 0, 3, 2), *(2, 3, 0, 1), *(3, 2, 1, 0)]
    flat = [*(1.0, -1.0, -1.0, -1.0), *(1.0, 1.0, 1.0, -1.0)]
    flat += [*(1.0, -1.0, 1.0, 1.0), *(1.0, 1.0, -1.0, 1.0)]
    inverted = {"a": [0, 1, 2, 3] * 4, "b": columns, "": [0] * 16}[inverts]
    flat = [-sign if one else sign for sign, one in zip(flat, inverted, strict=True)]
    signs = [flat[start : start + 4] for start in range(0, 16, 4)]
    return torch.tensor(columns, device=device), _over_batch(signs, device, dims)


@functools.cache
def _euler_table(device: torch.device, dims: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the two products that each component adds, and the sign of the second.

    Products of cosines (0) and sines (1) of roll, pitch and yaw are numbered in binary.
    """
    first, second = [0b000, 0b100, 0b010, 0b001], [0b111, 0b011, 0b101, 0b110]
    signs = _over_batch([1.0, -1.0, 1.0, -1.0], device, dims)
    return torch.tensor([*first, *second], device=device), signs


@functools.cache
def _turn_table(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which component goes with z of a turn about z, and with which sign, ``(4,)`` each."""
    signs = torch.tensor([-1.0, -1.0, 1.0, 1.0], device=device)
    return torch.tensor([3, 2, 1, 0], device=device), signs


@functools.cache
def _zero(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros((), device=device, dtype=dtype)


@functools.cache
def _conjugate_signs(device: torch.device) -> torch.Tensor:
    return torch.tensor([1.0, -1.0, -1.0, -1.0], device=device)


def _over_batch(table: Sequence[Any], device: torch.device, dims: int) -> torch.Tensor:
    """Return a table that broadcasts over ``dims`` trailing batch dimensions."""
    values = torch.tensor(table, device=device)
    return values.reshape(*values.shape, *[1] * dims)


def wrap_to_pi(angles: torch.Tensor) -> torch.Tensor:
    """Return angles, in rad, wrapped to [-pi, pi)."""
    return torch.remainder(angles + math.pi, 2.0 * math.pi) - math.pi


def normalize(values: torch.Tensor, eps: float = 1e-9) -> torch.Tensor:
    """Return vectors ``(..., k)`` of length 1; those shorter than ``eps`` stay short."""
    return values / values.norm(dim=-1, keepdim=True).clamp(min=eps)


def convert_quat(quat: torch.Tensor, to: Literal["xyzw", "wxyz"] = "xyzw") -> torch.Tensor:
    """Return quaternions with the scalar part moved to the other end; Isaac Lab 2's function.

    Args:
        quat: Quaternions ``(..., 4)``, in the order that ``to`` does not name.
        to: ``xyzw`` to convert this project's quaternions, ``wxyz`` to convert others' to its.

    Raises:
        ConfigurationError: If ``to`` is another word, or the last dimension is not 4.
    """
    if to not in ("xyzw", "wxyz"):
        raise ConfigurationError(f"to is {to!r}, but must be 'xyzw' or 'wxyz'.")
    if quat.shape[-1:] != (4,):
        raise ConfigurationError(
            f"quat has the shape {tuple(quat.shape)}, but quaternions end in a dimension of 4."
        )
    return quat.roll(-1 if to == "xyzw" else 1, dims=-1)


def quat_conjugate(q: torch.Tensor) -> torch.Tensor:
    """Return the inverse rotations of unit quaternions ``(..., 4)``."""
    return q * _conjugate_signs(q.device)


def quat_mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the rotations ``b`` followed by ``a``, ``(..., 4)``."""
    return _product(a, b).movedim(0, -1)


def quat_difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the rotations from ``b`` to ``a``, in the world's frame, ``(..., 4)``."""
    return _product(a, b, "b").movedim(0, -1)


def quat_apply(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return vectors ``(..., 3)`` rotated by unit quaternions ``(..., 4)``: body to world."""
    w, u = q[..., :1], q[..., 1:]
    half = torch.linalg.cross(u, v)
    turned = torch.add(v, w * half, alpha=2.0)
    return torch.add(turned, torch.linalg.cross(u, half), alpha=2.0)


def quat_apply_inverse(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return vectors ``(..., 3)`` rotated by the inverses of ``(..., 4)``: world to body."""
    w, u = q[..., :1], q[..., 1:]
    half = torch.linalg.cross(v, u)
    turned = torch.add(v, w * half, alpha=2.0)
    return torch.add(turned, torch.linalg.cross(half, u), alpha=2.0)


def gravity_in_body(q: torch.Tensor) -> torch.Tensor:
    """Return the direction of gravity, (0, 0, -1), in the frames of ``q``, ``(..., 3)``."""
    return _evaluate(_GRAVITY, q).movedim(0, -1)


def frame_rows(q: torch.Tensor) -> torch.Tensor:
    """Return what follows from the orientations of frames, ``(12, ...)``.

    These are their rotation matrices, row by row, and then the direction of gravity in them.
    """
    return _evaluate(_MATRIX + _GRAVITY, q)


def axes_from_quat(q: torch.Tensor) -> torch.Tensor:
    """Return the first two columns of rotation matrices, row by row, ``(..., 6)``."""
    return _evaluate(_AXES, q).movedim(0, -1)


def matrix_from_quat(q: torch.Tensor) -> torch.Tensor:
    """Return rotation matrices, ``(..., 3, 3)``, of unit quaternions."""
    return _evaluate(_MATRIX, q).movedim(0, -1).unflatten(-1, (3, 3))


def euler_xyz_from_quat(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return roll, pitch and yaw in rad, each ``(...)``, in [-pi, pi]; rotations about x, y, z."""
    sine, cosine, pitch, *yaw = _evaluate(_EULER, q)
    return torch.atan2(sine, cosine), torch.asin(pitch.clamp_(-1.0, 1.0)), torch.atan2(*yaw)


def yaw_from_quat(q: torch.Tensor) -> torch.Tensor:
    """Return the rotation about the vertical, in rad, ``(...)``, in [-pi, pi]."""
    return torch.atan2(*_evaluate(_YAW, q))


def yaw_quat(q: torch.Tensor) -> torch.Tensor:
    """Return only the rotations about the vertical, ``(..., 4)``."""
    half = 0.5 * yaw_from_quat(q)
    zero = _zero(half.device, half.dtype).expand_as(half)
    return torch.stack((half.cos(), zero, zero, half.sin()), dim=-1)


def heading(quat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine of the yaw of ``(..., 4)``, each ``(...)``.

    This avoids trigonometry, whose last bit depends on an environment's place in the batch.
    """
    w, x, y, z = quat.unbind(-1)
    cos, sin = 1.0 - 2.0 * (y * y + z * z), 2.0 * (w * z + x * y)
    norm = (cos * cos + sin * sin).sqrt().clamp(min=1e-6)
    return cos / norm, sin / norm


def turned_about_z(
    q: torch.Tensor, angle: torch.Tensor, reverse: torch.Tensor | None = None
) -> torch.Tensor:
    """Return orientations ``(..., 4)`` turned about the world's vertical by ``(...)``, in rad.

    It is the product with the turn's quaternion, whose x and y are 0.

    Args:
        q: The orientations.
        angle: The turns.
        reverse: :func:`reversed_about_z` of ``q``, where it is known.
    """
    half = 0.5 * angle.unsqueeze(-1)
    reverse = reversed_about_z(q) if reverse is None else reverse
    return half.cos() * q + half.sin() * reverse


def reversed_about_z(q: torch.Tensor) -> torch.Tensor:
    """Return orientations ``(..., 4)`` turned about the world's vertical by half a turn."""
    columns, signs = _turn_table(q.device)
    return q.index_select(-1, columns) * signs


def quat_from_euler_xyz(roll: torch.Tensor, pitch: torch.Tensor, yaw: torch.Tensor) -> torch.Tensor:
    """Return quaternions ``(..., 4)`` of rotations about x, then y, then z (fixed axes), in rad."""
    return quat_from_angles(torch.stack((roll, pitch, yaw), dim=-1))


def quat_from_angles(angles: torch.Tensor) -> torch.Tensor:
    """Return :func:`quat_from_euler_xyz` of roll, pitch and yaw as columns, ``(..., 3)``."""
    chosen, signs = _euler_table(angles.device, angles.dim() - 1)
    half = 0.5 * angles.movedim(-1, 0)
    x, y, z = torch.stack((half.cos(), half.sin()), dim=1)
    products = ((x[:, None] * y)[:, :, None] * z).flatten(0, 2)
    first, second = products.index_select(0, chosen).unflatten(0, (2, 4))
    return torch.addcmul(first, second, signs).movedim(0, -1)


def quat_from_rotation_vector(rotation: torch.Tensor) -> torch.Tensor:
    """Return quaternions ``(..., 4)`` of rotation vectors in rad, ``(..., 3)``."""
    angle = rotation.norm(dim=-1, keepdim=True)
    # sin(a/2) / a, which is 1/2 at 0.
    factor = 0.5 * torch.sinc(angle / (2.0 * math.pi))
    return torch.cat(((0.5 * angle).cos(), factor * rotation), dim=-1)


def rotation_vector_from_quat(q: torch.Tensor) -> torch.Tensor:
    """Return axis times angle in rad, ``(..., 3)``, with angles in [0, pi]."""
    q = torch.where(q[..., :1] < 0.0, -q, q)
    sine = q[..., 1:].norm(dim=-1, keepdim=True)
    angle = 2.0 * torch.atan2(sine, q[..., :1])
    factor = torch.where(sine > 1e-6, angle / sine.clamp(min=1e-6), 2.0)
    return factor * q[..., 1:]


def quat_box_minus(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return rotation vectors from ``b`` to ``a``, in rad, world frame, ``(..., 3)``."""
    return rotation_vector_from_quat(quat_difference(a, b))


def quat_error_magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the angles between orientations, in rad, ``(...)``, in [0, pi]."""
    difference = quat_difference(a, b)
    return 2.0 * torch.atan2(difference[..., 1:].norm(dim=-1), difference[..., 0].abs())


def quat_unique(q: torch.Tensor) -> torch.Tensor:
    """Return the same rotations with a scalar part that is not negative, ``(..., 4)``."""
    return torch.where(q[..., :1] < 0.0, -q, q)


def combine_frame_transforms(
    pos: torch.Tensor, quat: torch.Tensor, child_pos: torch.Tensor, child_quat: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pose, in the outer frame, of a child given in the frame ``pos``, ``quat``."""
    return pos + quat_apply(quat, child_pos), quat_mul(quat, child_quat)


def subtract_frame_transforms(
    pos: torch.Tensor, quat: torch.Tensor, other_pos: torch.Tensor, other_quat: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pose of another frame in the frame ``pos``, ``quat``; the inverse of combining."""
    turned = _product(quat, other_quat, "a").movedim(0, -1)
    return quat_apply_inverse(quat, other_pos - pos), turned


def random_orientation(unit: torch.Tensor) -> torch.Tensor:
    """Return uniform orientations, ``(..., 4)``, of draws from [0, 1), ``(..., 3)``.

    Shoemake: "Uniform random rotations", Graphics Gems III, 1992.
    """
    u, v, w = unit.unbind(-1)
    v, w = 2.0 * math.pi * v, 2.0 * math.pi * w
    a, b = (1.0 - u).sqrt(), u.sqrt()
    return torch.stack((b * w.cos(), a * v.sin(), a * v.cos(), b * w.sin()), dim=-1)


# Numbers ------------------------------------------------------------------------------------------


def squared_difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``(a - b).square()`` by one operation, with the same rounding."""
    return torch.nn.functional.mse_loss(a, b, reduction="none")


def scaled_square(values: torch.Tensor, scale: float) -> torch.Tensor:
    """Return ``scale * values.square()`` by one operation."""
    return torch.addcmul(_zero(values.device, values.dtype), values, values, value=scale)


def gaussian(error: torch.Tensor, std: float) -> torch.Tensor:
    """Return ``exp(-|error|^2 / std^2)`` of errors ``(n, k)``: ``(n,)``, 1 without an error."""
    return torch.exp(scaled_square(error, -1.0 / std**2).sum(dim=1))


def scale_transform(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Return values in units of their range: -1 at ``lower``, 1 at ``upper``; not clamped."""
    return 2.0 * (x - 0.5 * (lower + upper)) / (upper - lower)


def unscale_transform(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Return the inverse of :func:`scale_transform`."""
    return 0.5 * x * (upper - lower) + 0.5 * (lower + upper)


def saturate(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Return values clamped to a range; where its ends are swapped, ``lower`` counts."""
    return torch.maximum(torch.minimum(x, upper), lower)


def copysign(mag: float, other: torch.Tensor) -> torch.Tensor:
    """Return the magnitude ``|mag|`` with the signs of ``other``, that of a zero included."""
    return torch.copysign(torch.full_like(other, abs(mag)), other)


# More of rotations --------------------------------------------------------------------------------

quat_rotate = quat_apply
"""Isaac Lab's older name of :func:`quat_apply`."""
quat_rotate_inverse = quat_apply_inverse
"""Isaac Lab's older name of :func:`quat_apply_inverse`."""


def quat_inv(q: torch.Tensor, eps: float = 1e-9) -> torch.Tensor:
    """Return inverses of quaternions ``(..., 4)`` of any length above the root of ``eps``."""
    return quat_conjugate(q) / q.square().sum(dim=-1, keepdim=True).clamp(min=eps)


def quat_apply_yaw(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return vectors ``(..., 3)`` rotated about the vertical alone, by the yaw of ``(..., 4)``."""
    return quat_apply(yaw_quat(q), v)


def quat_from_angle_axis(angle: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
    """Return quaternions ``(..., 4)`` of angles in rad, ``(...)``, about axes of any length."""
    half = 0.5 * angle.unsqueeze(-1)
    return normalize(torch.cat((half.cos(), half.sin() * normalize(axis)), dim=-1))


def axis_angle_from_quat(q: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return axis times angle in rad, ``(..., 3)``: :func:`rotation_vector_from_quat`.

    ``eps`` is Isaac Lab's bound of small angles, which has no effect here.
    """
    return rotation_vector_from_quat(q)


def quat_box_plus(q: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
    """Return ``q`` turned by rotation vectors in rad, world frame, ``(..., 3)``; w is not negative.

    It is the inverse of :func:`quat_box_minus`.
    """
    return quat_unique(quat_mul(quat_from_rotation_vector(delta), q))


def quat_from_matrix(matrix: torch.Tensor) -> torch.Tensor:
    """Return quaternions ``(..., 4)`` of rotation matrices ``(..., 3, 3)``.

    Of the four formulas, one for each component that is not zero, the one with the largest counts
    (Shepperd: "Quaternion from rotation matrix", 1978).

    Raises:
        ConfigurationError: For another shape.
    """
    if matrix.shape[-2:] != (3, 3):
        raise ConfigurationError(
            f"matrix has the shape {tuple(matrix.shape)}, but rotation matrices end in (3, 3)."
        )
    (a, b, c), (d, e, f), (g, h, i) = (row.unbind(-1) for row in matrix.unbind(-2))
    # Four times the products of two components; each row is the quaternion times one of them.
    rows = (
        *(1.0 + a + e + i, h - f, c - g, d - b),
        *(h - f, 1.0 + a - e - i, d + b, c + g),
        *(c - g, d + b, 1.0 - a + e - i, f + h),
        *(d - b, g + c, h + f, 1.0 - a - e + i),
    )
    products = torch.stack(rows, dim=-1).unflatten(-1, (4, 4))
    largest = products.diagonal(dim1=-2, dim2=-1).argmax(dim=-1)
    chosen = largest[..., None, None].expand(*largest.shape, 1, 4)
    return normalize(products.gather(-2, chosen).squeeze(-2))


def matrix_from_euler(euler_angles: torch.Tensor, convention: str) -> torch.Tensor:
    """Return rotation matrices ``(..., 3, 3)`` of angles in rad, ``(..., 3)``.

    Args:
        euler_angles: Angles about the axes of ``convention``, each an axis of the turned frame.
        convention: Three axes, such as ``XYZ``, of which neighbours differ.

    Raises:
        ConfigurationError: For other axes.
    """
    axes = [*convention]
    if len(axes) != 3 or not {*axes} <= {*"XYZ"} or axes[1] in (axes[0], axes[2]):
        raise ConfigurationError(
            f"convention is {convention!r}, but must be three of X, Y and Z, of which neighbours "
            "differ, such as 'XYZ'."
        )
    basis = torch.eye(3, dtype=euler_angles.dtype, device=euler_angles.device)
    first, second, third = (
        matrix_from_quat(
            quat_from_angle_axis(angle, basis["XYZ".index(axis)].expand(*angle.shape, 3))
        )
        for axis, angle in zip(axes, euler_angles.unbind(-1), strict=True)
    )
    return first @ second @ third


def skew_symmetric_matrix(vec: torch.Tensor) -> torch.Tensor:
    """Return matrices ``(num, 3, 3)`` whose product with a vector is the cross product of both.

    Args:
        vec: ``(num, 3)``, or ``(3,)``, which counts as one.

    Raises:
        ConfigurationError: For vectors that do not have three components.
    """
    if vec.shape[-1:] != (3,):
        raise ConfigurationError(
            f"vec has the shape {tuple(vec.shape)}, but vectors end in a dimension of 3."
        )
    basis = torch.eye(3, dtype=vec.dtype, device=vec.device)
    rows = vec.reshape(-1, 1, 3).expand(-1, 3, 3)
    return torch.linalg.cross(rows, basis.expand_as(rows)).transpose(-1, -2)


def default_orientation(num: int, device: torch.device | str) -> torch.Tensor:
    """Return ``num`` quaternions that turn nothing, ``(num, 4)``."""
    return torch.tensor([1.0, 0.0, 0.0, 0.0], device=device).repeat(num, 1)


def random_yaw_orientation(unit: torch.Tensor) -> torch.Tensor:
    """Return uniform rotations about the vertical, ``(..., 4)``, of draws from [0, 1), ``(...)``.

    See :mod:`envlab.envs.distributions` on draws.
    """
    zero = torch.zeros_like(unit)
    return quat_from_euler_xyz(zero, zero, 2.0 * math.pi * unit)


def quat_slerp(q1: torch.Tensor, q2: torch.Tensor, tau: torch.Tensor | float) -> torch.Tensor:
    """Return orientations on the shorter way from ``q1`` to ``q2`` at constant turning velocity.

    Args:
        q1: ``(..., 4)``, at ``tau`` 0.
        q2: ``(..., 4)``, at ``tau`` 1, where Isaac Lab's function of one pair has ``q2``, and this
            one the sign of it that is nearer to ``q1``.
        tau: Share of the way, broadcast over the batch, ``(...)``.
    """
    q1, q2 = torch.broadcast_tensors(q1, q2)
    tau = torch.as_tensor(tau, dtype=q1.dtype, device=q1.device).unsqueeze(-1)
    cosine = (q1 * q2).sum(dim=-1, keepdim=True)
    q2 = torch.where(cosine < 0.0, -q2, q2)
    # Of the angle between, which acos loses where it is small.
    sine = torch.linalg.vector_norm(q2 - cosine.abs() * q1, dim=-1, keepdim=True)
    angle = torch.atan2(sine, cosine.abs())
    near = sine < 4.0 * torch.finfo(q1.dtype).eps
    divisor = torch.where(near, 1.0, angle.sin())
    mixed = (((1.0 - tau) * angle).sin() * q1 + (tau * angle).sin() * q2) / divisor
    return torch.where(near, q1, mixed)


# More of frames -----------------------------------------------------------------------------------


def is_identity_pose(pos: torch.Tensor, rot: torch.Tensor) -> bool:
    """Return whether all positions are 0 and all quaternions (1, 0, 0, 0), up to rounding.

    It waits for a GPU.
    """
    identity = torch.zeros_like(rot)
    identity[..., 0] = 1.0
    return torch.allclose(pos, torch.zeros_like(pos)) and torch.allclose(rot, identity)


def rigid_body_twist_transform(
    v0: torch.Tensor, w0: torch.Tensor, t01: torch.Tensor, q01: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the linear and angular velocity of another frame of the same body, in that frame.

    Args:
        v0: Linear velocity of frame 0, in it, in m/s, ``(..., 3)``.
        w0: Angular velocity, in frame 0, in rad/s, ``(..., 3)``.
        t01: Position of frame 1 in frame 0, in m, ``(..., 3)``.
        q01: Its orientation, ``(..., 4)``.
    """
    velocity = v0 + torch.linalg.cross(w0, t01)
    return quat_apply_inverse(q01, velocity), quat_apply_inverse(q01, w0)


def compute_pose_error(
    t01: torch.Tensor,
    q01: torch.Tensor,
    t02: torch.Tensor,
    q02: torch.Tensor,
    rot_error_type: Literal["quat", "axis_angle"] = "axis_angle",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what takes pose 1 to pose 2, in the frame that both are given in.

    Returns:
        The way in m, ``(..., 3)``, and the turn: a rotation vector in rad, ``(..., 3)``, or a
        quaternion, ``(..., 4)``.

    Raises:
        ConfigurationError: For another type.
    """
    if rot_error_type not in ("quat", "axis_angle"):
        raise ConfigurationError(
            f"rot_error_type is {rot_error_type!r}, but must be 'quat' or 'axis_angle'."
        )
    turn = quat_mul(q02, quat_inv(q01))
    return t02 - t01, turn if rot_error_type == "quat" else rotation_vector_from_quat(turn)


def apply_delta_pose(
    source_pos: torch.Tensor, source_rot: torch.Tensor, delta_pose: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return poses moved by ``delta_pose`` in the frame that they are given in.

    Args:
        source_pos: In m, ``(..., 3)``.
        source_rot: ``(..., 4)``.
        delta_pose: A translation in m, and a rotation vector in rad, ``(..., 6)``.
        eps: Angle in rad up to which the rotation is ignored.
    """
    way, turn = delta_pose[..., :3], delta_pose[..., 3:]
    turn = torch.where(turn.norm(dim=-1, keepdim=True) > eps, turn, 0.0)
    return source_pos + way, quat_mul(quat_from_rotation_vector(turn), source_rot)


def transform_points(
    points: torch.Tensor, pos: torch.Tensor | None = None, quat: torch.Tensor | None = None
) -> torch.Tensor:
    """Return points of the frames ``pos``, ``quat`` in the outer frame.

    Args:
        points: In m, ``(num_points, 3)`` or ``(num, num_points, 3)``.
        pos: Positions of the frames in m, ``(3,)`` or ``(num, 3)``; None: 0.
        quat: Their orientations, ``(4,)`` or ``(num, 4)``; None: not turned.

    Returns:
        Of the shape of ``points``, with ``num`` if there is one.
    """
    if quat is not None:
        points = points @ matrix_from_quat(quat).transpose(-1, -2)
    return points if pos is None else points + pos.unsqueeze(-2)


_TO_OPENGL = {
    "opengl": (1.0, 0.0, 0.0, 0.0),
    "ros": (0.0, 1.0, 0.0, 0.0),  # half a turn about x
    "world": (0.5, 0.5, -0.5, -0.5),  # a quarter about x, then one back about the new y
}
"""Turns of a camera's axes to those of OpenGL: z back and y up; of ROS: z forward and y down; of
the world: x forward and z up."""


def convert_camera_frame_orientation_convention(
    orientation: torch.Tensor,
    origin: Literal["opengl", "ros", "world"] = "opengl",
    target: Literal["opengl", "ros", "world"] = "ros",
) -> torch.Tensor:
    """Return orientations ``(..., 4)`` of the same cameras by other axes.

    MuJoCo's cameras, like Isaac Lab's in USD, look along -z with y up, ``opengl``.

    Raises:
        ConfigurationError: For an unknown convention.
    """
    for name, value in (("origin", origin), ("target", target)):
        if value not in _TO_OPENGL:
            raise ConfigurationError(
                f"{name} is {value!r}, but must be one of {', '.join(map(repr, _TO_OPENGL))}."
            )
    first, second = (orientation.new_tensor(_TO_OPENGL[name]) for name in (origin, target))
    return quat_mul(quat_mul(orientation, first), quat_conjugate(second))
