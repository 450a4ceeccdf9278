"""Closed-form dynamics of one free body, driven by motors on its sites.

Newton's and Euler's equations in the body's frame, where the inertia is constant, and MuJoCo's
semi-implicit step. As in MuJoCo, ``qvel`` is the velocity of the frame's origin in the world, then
the angular velocity in the body's frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch

from envlab.sim._analytic_model import Link, Value, Wrenches, cross, dot, reference, shared


class FreeBody:
    """The dynamics of a model whose one link :func:`._analytic_model.find_links` found."""

    def __init__(self, model: mujoco.MjModel, links: Sequence[Link], device: torch.device) -> None:
        data = reference(model)
        (link,) = links
        self._bodies = list(link.bodies)
        self._dt = float(model.opt.timestep)
        self._implicit_dt = self._dt if _is_implicit(model) else 0.0
        self._gravity = [float(value) for value in model.opt.gravity]
        frame = data.xmat[self._bodies[0]].reshape(3, 3)
        origin = data.xpos[self._bodies[0]]
        self._centres = (data.xipos - origin) @ frame
        """Centres of mass in the link's frame, ``(nbody, 3)``."""
        frames = frame.T @ data.ximat.reshape(-1, 3, 3)
        self._frames_there = torch.as_tensor(frames[self._bodies], device=device)
        """Principal axes of the link's bodies in its frame, ``(k, 3, 3)``."""
        self._centres_there = torch.as_tensor(self._centres[self._bodies], device=device)

    def set_constants(
        self,
        mass: torch.Tensor,
        inertia: torch.Tensor,
        damping: torch.Tensor,
        armature: torch.Tensor,
    ) -> None:
        """Compute the equations' constants; see :meth:`PlanarChain.set_constants`.

        A free joint with damping or armature has been refused by then.
        """
        bodies = self._bodies
        mass, inertia = mass[:, bodies].double(), inertia[:, bodies].double()
        centres, frames = self._centres_there, self._frames_there
        total = mass.sum(1, keepdim=True)
        centre = (mass.unsqueeze(2) * centres).sum(1) / total
        arms = centres - centre.unsqueeze(1)
        eye = torch.eye(3, dtype=torch.float64, device=mass.device)
        steiner = arms.square().sum(2)[..., None, None] * eye
        steiner = steiner - arms.unsqueeze(3) * arms.unsqueeze(2)
        about = torch.einsum("bij,rbj,bkj->rik", frames, inertia, frames)
        about = about + torch.einsum("rb,rbij->rij", mass, steiner)
        inverse = torch.linalg.inv_ex(about).inverse  # inv() would make a GPU wait
        self._lightness = shared(1.0 / total)[0]
        self._centre = shared(centre)
        self._inertia, self._inverse = _square(about), _square(inverse)
        # Columns of the inertia plus the time step times the derivative of the gyroscopic torque.
        # It is linear in the spin: each element has a constant, and factors of the spin's parts.
        unit = _skew(eye)
        gyroscopic = unit @ about.unsqueeze(1) - _skew(about)
        gyroscopic = (self._implicit_dt * gyroscopic).permute(0, 3, 2, 1)
        changes = [_square(part) for part in gyroscopic.unbind(1)]
        own = _square(about.transpose(1, 2))
        self._columns = [list(zip(own[j], changes[j], strict=True)) for j in range(3)]

    def advance(
        self,
        state: Sequence[Value],
        forces: Sequence[Value],
        wrenches: Wrenches,
    ) -> list[Value]:
        """Return the state after one physics step.

        Args:
            state: The 7 positions, then the 6 velocities, each ``(num_envs,)``.
            forces: Force and torque of the actuators at the origin, in the body's frame.
            wrenches: External wrenches on bodies.
        """
        position, quaternion = state[:3], state[3:7]
        velocity, spin = state[7:10], list(state[10:13])
        force, torque = self._with_wrenches(forces, quaternion, wrenches)
        torque = _minus(torque, cross(self._centre, force))
        turning = self._turning(spin, torque)
        linear = self._linear(spin, force, turning)
        velocity = [
            dot((1.0, value), (self._dt * self._gravity[i], 1.0))
            for i, value in enumerate(velocity)
        ]
        for index, change in enumerate(linear):
            if not isinstance(change, float):  # the thrust of a drone is along a single axis
                axis = _axis(quaternion, index)
                velocity = [dot((1.0, velocity[i]), (axis[i], change)) for i in range(3)]
        spin = [dot((1.0, spin[i]), (self._dt, turning[i])) for i in range(3)]
        position = [dot((1.0, position[i]), (self._dt, velocity[i])) for i in range(3)]
        return [*position, *_turn(quaternion, spin, self._dt), *velocity, *spin]

    def _turning(self, spin: list[Value], torque: list[Value]) -> list[Value]:
        """Return the angular acceleration under a torque about the centre of mass.

        MuJoCo's ``implicitfast`` takes the gyroscopic torque of a free body at the end of the step.
        """
        momentum = [dot(*zip(row, spin, strict=True)) for row in self._inertia]
        load = _minus(torque, cross(spin, momentum))
        if not self._implicit_dt:
            return [dot(*zip(row, load, strict=True)) for row in self._inverse]
        columns = [
            [dot((1.0, own), *zip(change, spin, strict=True)) for own, change in rows]
            for rows in self._columns
        ]
        return _solve(columns, load)

    def _linear(self, spin: list[Value], force: list[Value], turning: list[Value]) -> list[Value]:
        """Return the change of the origin's velocity in a step, in the body's frame."""
        swing, rise = cross(spin, self._centre), cross(turning, self._centre)
        parts = zip(
            force, cross(spin, swing), rise, cross(turning, swing), cross(spin, rise), strict=True
        )
        dt, implicit = self._dt, -self._dt * self._implicit_dt
        return [
            dot(
                (dt, dot((self._lightness, push))),
                *((-dt, term) for term in (swung, risen)),
                *((implicit, term) for term in later),
            )
            for push, swung, risen, *later in parts
        ]

    def _with_wrenches(
        self,
        forces: Sequence[Value],
        quaternion: Sequence[Value],
        wrenches: Wrenches,
    ) -> tuple[list[Value], list[Value]]:
        """Return force and torque at the origin, in the body's frame, of motors and wrenches."""
        total, twist = list(forces[:3]), list(forces[3:])
        axes = [_axis(quaternion, index) for index in range(3)] if wrenches else []
        for body, wrench in wrenches:
            if body not in self._bodies:
                continue  # fixed to the world
            force = [dot(*zip(axis, wrench[:3], strict=True)) for axis in axes]
            torque = [dot(*zip(axis, wrench[3:], strict=True)) for axis in axes]
            lever = cross([float(value) for value in self._centres[body]], force)
            total = [dot((1.0, total[i]), (1.0, force[i])) for i in range(3)]
            twist = [dot((1.0, twist[i]), (1.0, torque[i]), (1.0, lever[i])) for i in range(3)]
        return total, twist


def motor_wrenches(model: mujoco.MjModel, links: Sequence[Link]) -> np.ndarray:
    """Return the wrench at the body's origin of one newton of each actuator, ``(6, nu)``."""
    data = reference(model)
    body = links[0].bodies[0]
    frame, origin = data.xmat[body].reshape(3, 3), data.xpos[body]
    columns = np.zeros((6, model.nu))
    for index in range(model.nu):
        site = int(model.actuator_trnid[index, 0])
        turned = frame.T @ data.site_xmat[site].reshape(3, 3)
        force = turned @ model.actuator_gear[index, :3]
        torque = turned @ model.actuator_gear[index, 3:]
        columns[:3, index] = force
        columns[3:, index] = torque + np.cross(frame.T @ (data.site_xpos[site] - origin), force)
    return columns


def _is_implicit(model: mujoco.MjModel) -> bool:
    return bool(model.opt.integrator == int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST))


def _square(values: torch.Tensor) -> list[list[Value]]:
    """Return the rows of constant matrices, ``(rows, 3, 3)``."""
    flat = shared(values.flatten(1))
    return [flat[:3], flat[3:6], flat[6:]]


def _skew(vectors: torch.Tensor) -> torch.Tensor:
    """Return the matrices of the cross products with ``vectors``, ``(..., 3)``."""
    shape = (*vectors.shape, 3)
    eye = torch.eye(3, dtype=vectors.dtype, device=vectors.device)
    return torch.linalg.cross(vectors.unsqueeze(-2).expand(shape), eye.expand(shape)).mT


def _minus(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    return [dot((1.0, a), (-1.0, b)) for a, b in zip(left, right, strict=True)]


def _solve(columns: list[list[Value]], right: list[Value]) -> list[Value]:
    """Return the solution of a 3 x 3 system, by Cramer's rule."""
    a, b, c = columns
    normals = cross(b, c), cross(c, a), cross(a, b)
    scale = 1.0 / dot(*zip(a, normals[0], strict=True))
    return [dot(*zip(normal, right, strict=True)) * scale for normal in normals]


def _axis(quaternion: Sequence[Value], index: int) -> list[Value]:
    """Return an axis of the body in the world, from its quaternion (w, x, y, z)."""
    w, *vector = quaternion
    a, b, c = index, (index + 1) % 3, (index + 2) % 3
    along, right, left = vector[a], 2.0 * vector[b], 2.0 * vector[c]
    axis: list[Value] = [0.0, 0.0, 0.0]
    axis[a] = 1.0 - dot((right, vector[b]), (left, vector[c]))
    axis[b] = dot((along, right), (w, left))
    axis[c] = dot((along, left), minus=((w, right),))
    return axis


def _turn(quaternion: Sequence[Value], spin: Sequence[Value], dt: float) -> list[Value]:
    """Return ``quaternion`` after turning with ``spin`` (rad/s, body frame) for ``dt`` seconds."""
    w, x, y, z = quaternion
    speed = torch.sqrt(torch.as_tensor(dot(*((value, value) for value in spin))))
    half = (0.5 * dt) * speed
    real = torch.cos(half)
    factor = torch.sin(half) / speed.clamp(min=1e-12)
    i, j, k = (factor * value for value in spin)
    turned = (
        dot((w, real), minus=((x, i), (y, j), (z, k))),
        dot((w, i), (x, real), (y, k), minus=((z, j),)),
        dot((w, j), (y, real), (z, i), minus=((x, k),)),
        dot((w, k), (z, real), (x, j), minus=((y, i),)),
    )
    inverse = torch.rsqrt(torch.as_tensor(dot(*((value, value) for value in turned))))
    return [value * inverse for value in turned]
