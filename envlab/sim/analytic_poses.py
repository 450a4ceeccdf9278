"""Poses of the bodies of an analytic simulation: the fields ``xpos`` and ``xquat``."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch

from envlab.sim.analytic_model import Link, kinds_of, reference


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
