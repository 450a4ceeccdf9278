"""Bodies' tilt and heading, and the direction of the target. Formulas over a batch."""

from __future__ import annotations

import functools

import torch

from envlab.envs.math import matrix_from_quat


def to_target(position: torch.Tensor, target: tuple[float, float, float]) -> torch.Tensor:
    """Return the horizontal vector from positions in m, ``(num_envs, 3)``, to a point."""
    return _point(tuple(target[:2]), position.device) - position[:, :2]


@functools.cache
def _point(target: tuple[float, ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(target, device=device)


def uprightness(quat: torch.Tensor) -> torch.Tensor:
    """Return the cosine of the tilt of bodies, 1 when upright, ``(num_envs,)``."""
    return 1.0 - 2.0 * quat[:, 1:3].square().sum(dim=1)


def heading(quat: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """Return how far bodies face horizontal directions; see :func:`facing`.

    Args:
        quat: Orientations (w, x, y, z), ``(num_envs, 4)``; forward is the body's x.
        direction: Of any length, ``(num_envs, 2)``.
    """
    distance = torch.linalg.vector_norm(direction, dim=1)
    return facing(matrix_from_quat(quat), direction, distance)


def facing(rotation: torch.Tensor, way: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    """Return the cosine of the angle between bodies' x axes and directions, ``(num_envs,)``.

    Args:
        rotation: Rotation matrices, ``(num_envs, 3, 3)``.
        way: Horizontal vectors, ``(num_envs, 2)``.
        distance: Their lengths, ``(num_envs,)``.
    """
    return torch.linalg.vecdot(rotation[:, :2, 0], way) / distance.clamp(min=1e-9)


def progress(
    last: torch.Tensor, position: torch.Tensor, way: torch.Tensor, distance: torch.Tensor
) -> torch.Tensor:
    """Return the decrease of the horizontal distance to a point, in m.

    It is the difference of the two distances, in a numerically accurate form: at 1000 m a float32
    distance has steps of 0.06 mm, which are 4 mm/s at 60 Hz.

    Args:
        last: Last positions, in m, ``(num_envs, 3)``.
        position: Current positions, in m, ``(num_envs, 3)``.
        way: Horizontal vectors from these to the point, in m, ``(num_envs, 2)``.
        distance: Their lengths, ``(num_envs,)``.
    """
    moved = position[:, :2] - last[:, :2]
    before = way + moved
    lengths = torch.linalg.vector_norm(before, dim=1) + distance
    return torch.linalg.vecdot(moved, before + way) / lengths.clamp(min=1e-6)
