"""Quantities of an analytic simulation: sums of products, and poses of bodies.

A model's constants are numbers if all environments share them, and tensors, ``(num_envs,)``, if
they are randomised. Most of a drone's are zero, so leaving them out halves the time of its step.
Poses are the fields ``xpos`` and ``xquat``.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch

from envlab.sim.analytic_model import Link, kinds_of, reference

Value = torch.Tensor | float
"""A number that all environments share, or one for each, ``(num_envs,)``."""

Wrenches = Sequence[tuple[int, Sequence[torch.Tensor]]]
"""Bodies with their world-frame force (N) and torque (N m), six tensors ``(num_envs,)``."""


def dot(*terms: tuple[Value, Value], minus: Sequence[tuple[Value, Value]] = ()) -> Value:
    """Return the sum of ``factor * value``, in as few tensor operations as there are terms.

    Args:
        terms: Added products.
        minus: Subtracted products.
    """
    total: Value = 0.0
    for factor, value in terms:
        total = _add(total, factor, value, 1.0)
    for factor, value in minus:
        total = _add(total, factor, value, -1.0)
    return total


def _add(total: Value, factor: Value, value: Value, sign: float) -> Value:
    if isinstance(value, float):
        factor, value = value, factor
    if isinstance(factor, float):
        factor *= sign
        if isinstance(value, float):
            number = factor * value
            return total + number if number else total
        if factor == 0.0:
            return total
        if isinstance(total, torch.Tensor):
            return torch.add(total, value, alpha=factor)
        product = value if factor == 1.0 else value * factor
    else:
        assert isinstance(value, torch.Tensor)
        if isinstance(total, torch.Tensor):
            return torch.addcmul(total, factor, value, value=sign)
        product = factor * value if sign > 0.0 else -(factor * value)
    return product + total if total else product


def cross(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """Return the cross product of two vectors, each as three values."""
    return [
        dot((left[i - 2], right[i - 1]), minus=((left[i - 1], right[i - 2]),)) for i in range(3)
    ]


def shared(values: torch.Tensor) -> list[Value]:
    """Return the columns of constants, ``(1, k)`` or ``(num_envs, k)``; numbers in the first case.

    Numbers that are only rounding errors become zero.
    """
    if values.shape[0] > 1:
        return [column.float().contiguous() for column in values.unbind(1)]
    row = values[0].double().cpu().numpy()
    tiny = 1e-12 * np.abs(row).max(initial=0.0)
    return [0.0 if abs(value) <= tiny else float(value) for value in row]


class BodyPoses:
    """Poses of the bodies, at fixed addresses.

    Attributes:
        xpos: Origins of the bodies' frames in the world, in m, ``(num_envs, nbody, 3)``.
        xquat: Their orientations (w, x, y, z), ``(num_envs, nbody, 4)``.
    """

    def __init__(
        self, model: mujoco.MjModel, links: Sequence[Link], num_envs: int, device: torch.device
    ) -> None:
        data = reference(model)
        self._links, self._is_free = links, kinds_of(model) == ["free"]

        def tensor(values: np.ndarray) -> torch.Tensor:
            return torch.as_tensor(values, dtype=torch.float32, device=device)

        self._at_start, self._turned_at_start = tensor(data.xpos), tensor(data.xquat)
        self.xpos = self._at_start.repeat(num_envs, 1, 1)
        self.xquat = self._turned_at_start.repeat(num_envs, 1, 1)
        self._anchors, self._axes = tensor(data.xanchor), tensor(data.xaxis)
        self._qpos0 = tensor(model.qpos0)
        self._bodies = [list(link.bodies) for link in links]

    def update(self, qpos: torch.Tensor) -> None:
        """Compute the poses of the moving bodies at positions ``qpos``, ``(num_envs, nq)``."""
        if self._is_free:
            self._place_free(qpos)
        else:
            self._place_chain(qpos)

    def _place_free(self, qpos: torch.Tensor) -> None:
        (bodies,) = self._bodies
        first, turned = bodies[0], qpos[:, 3:7]
        turned = turned / torch.linalg.vector_norm(turned, dim=1, keepdim=True)
        # From the pose of qpos0 to this one.
        change = _multiply(turned, _conjugate(self._turned_at_start[first]))
        for body in bodies:
            offset = self._at_start[body] - self._at_start[first]
            self.xpos[:, body] = qpos[:, :3] + _rotate(change, offset)
            self.xquat[:, body] = _multiply(change, self._turned_at_start[body])

    def _place_chain(self, qpos: torch.Tensor) -> None:
        moved = qpos - self._qpos0
        anchor = moved[:, :1] * self._axes[0]  # displacement of the first hinge
        change = torch.zeros_like(self.xquat[:, 0])
        change[:, 0] = 1.0
        anchor = self._anchors[0] + anchor
        for number, bodies in enumerate(self._bodies):
            if number:
                span = self._anchors[number] - self._anchors[number - 1]
                anchor = anchor + _rotate(change, span)
                change = _multiply(_turn(self._axes[number], moved[:, number]), change)
            for body in bodies:
                offset = self._at_start[body] - self._anchors[number]
                self.xpos[:, body] = anchor + _rotate(change, offset)
                self.xquat[:, body] = _multiply(change, self._turned_at_start[body])


def _turn(axis: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Return quaternions of turns about an axis ``(3,)`` by angles ``(num_envs,)``."""
    half = 0.5 * angle.unsqueeze(1)
    return torch.cat((torch.cos(half), torch.sin(half) * axis), dim=1)


def _conjugate(quaternion: torch.Tensor) -> torch.Tensor:
    return torch.cat((quaternion[..., :1], -quaternion[..., 1:]), dim=-1)


def _multiply(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the products of quaternions (w, x, y, z), ``(num_envs, 4)`` or ``(4,)``."""
    w1, x1, y1, z1 = left.unbind(-1)
    w2, x2, y2, z2 = right.unbind(-1)
    return torch.stack(
        (
            w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        ),
        dim=-1,
    )


def _rotate(turned: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Return ``vector``, ``(3,)``, turned by quaternions, ``(num_envs, 4)``."""
    imaginary = turned[:, 1:]
    twice = 2.0 * torch.linalg.cross(imaginary, vector.expand_as(imaginary))
    return vector + turned[:, :1] * twice + torch.linalg.cross(imaginary, twice)
