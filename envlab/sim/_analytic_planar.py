"""Closed-form dynamics of a slide joint that carries one or two hinged links, in a plane.

Lagrange's equations in the angles of the links against the world, converted to joint angles; then
a semi-implicit step in which joint damping is implicit, as in MuJoCo's ``implicitfast`` and
``Euler``: ``(M + dt D) dv = dt f`` and ``dq = dt v`` with the new ``v``.

Vectors of the plane are ``(u, w)``: u along the slide, w where a positive turn of a hinge takes u.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch

from envlab.sim._analytic_model import Link, Value, Wrenches, dot, reference, shared

Vector = tuple[Value, Value]


class PlanarChain:
    """The dynamics of a model whose links :func:`envlab.sim._analytic_model.find_links` found."""

    def __init__(self, model: mujoco.MjModel, links: Sequence[Link], device: torch.device) -> None:
        data = reference(model)
        slide, hinge = data.xaxis[0], data.xaxis[1]
        self._plane = np.stack((slide, np.cross(hinge, slide)))
        self._normal = hinge
        self._links = links
        self._dt = float(model.opt.timestep)
        self._gravity = _round(self._plane @ model.opt.gravity)
        self._start = [float(model.qpos0[i]) for i in range(1, model.nq)]
        anchors = data.xanchor @ self._plane.T  # (joints, 2)
        self._spans = [_round(anchors[i + 1] - anchors[i]) for i in range(1, len(links) - 1)]
        """From each hinge to the next one, in the pose of ``qpos0``."""
        self._arms = data.xipos @ self._plane.T
        """From a body's own hinge to its centre of mass; meaningless for the cart's bodies."""
        for number, link in enumerate(links):
            self._arms[list(link.bodies)] -= anchors[number]
        frames = data.ximat.reshape(-1, 3, 3)
        weights = np.square(np.einsum("i,bij->bj", hinge, frames))
        self._inertia_weights = torch.as_tensor(weights, device=device)
        self._arms_there = torch.as_tensor(self._arms, device=device)
        self._spans_there = torch.as_tensor(np.array(self._spans).reshape(-1, 2), device=device)
        self._link_of = {body: i for i, link in enumerate(links) for body in link.bodies}

    def set_constants(
        self,
        mass: torch.Tensor,
        inertia: torch.Tensor,
        damping: torch.Tensor,
        armature: torch.Tensor,
    ) -> None:
        """Compute the equations' constants; rows are 1, or ``num_envs`` if some are randomised.

        Args:
            mass: Of the bodies, kg, ``(rows, nbody)``.
            inertia: Their principal moments, kg m^2, ``(rows, nbody, 3)``.
            damping: Of the joints, N s/m or N m s/rad, ``(rows, nv)``.
            armature: Of the joints, kg or kg m^2, ``(rows, nv)``.
        """
        mass, inertia = mass.double(), inertia.double()
        arms = self._arms_there
        about = (inertia * self._inertia_weights).sum(2)
        about = about + mass * arms.square().sum(1)
        total = [mass[:, list(link.bodies)].sum(1) for link in self._links]
        moments, inertias = [], []
        for number, link in enumerate(self._links[1:], start=1):
            bodies = list(link.bodies)
            moment = (mass[:, bodies].unsqueeze(2) * arms[bodies]).sum(1)
            own = about[:, bodies].sum(1)
            if number < len(self._links) - 1:  # carries the next link at the end of its span
                span = self._spans_there[number - 1]
                beyond = torch.stack(total[number + 1 :]).sum(0)
                moment = moment + beyond.unsqueeze(1) * span
                own = own + beyond * span.square().sum()
            moments.append(moment)
            inertias.append(own)
        implicit = (armature + self._dt * damping).double()
        self._damping = shared(damping)
        self._added = shared(implicit)[1:]
        weight = torch.stack(total, dim=1).sum(1, keepdim=True)
        self._mass, self._load = shared(weight)[0], shared(weight * self._gravity[0])[0]
        self._inverse = shared(1.0 / (weight + implicit[:, :1]))[0]
        self._moments = [tuple(shared(moment)) for moment in moments]
        self._inertias = [shared(own.unsqueeze(1))[0] for own in inertias]
        self._inertias_added = [
            shared((own + implicit[:, i + 1]).unsqueeze(1))[0] for i, own in enumerate(inertias)
        ]
        if len(moments) == 2:
            (x, y), last = self._spans[0], moments[1]
            along = x * last[:, 0] + y * last[:, 1]
            across = y * last[:, 0] - x * last[:, 1]
            self._coupling = tuple(shared(torch.stack((along, across), dim=1)))

    def advance(
        self,
        state: Sequence[Value],
        forces: Sequence[Value],
        wrenches: Wrenches,
    ) -> list[Value]:
        """Return the state after one physics step.

        Args:
            state: Joint positions, then velocities, each ``(num_envs,)``.
            forces: Of the actuators on each joint, N or N m.
            wrenches: External wrenches on bodies.
        """
        num = len(self._links)
        positions, velocities = state[:num], state[num:]
        accelerate = self._accelerate_one if num == 2 else self._accelerate_two
        velocities = [
            dot((1.0, velocity), (self._dt, acceleration))
            for velocity, acceleration in zip(
                velocities, accelerate(positions, velocities, forces, wrenches), strict=True
            )
        ]
        positions = [
            dot((1.0, position), (self._dt, velocity))
            for position, velocity in zip(positions, velocities, strict=True)
        ]
        return [*positions, *velocities]

    def _accelerate_one(
        self,
        positions: Sequence[Value],
        velocities: Sequence[Value],
        forces: Sequence[Value],
        wrenches: Wrenches,
    ) -> tuple[Value, ...]:
        turned = self._turn(positions[1], self._start[0])
        lever = _rotate(self._moments[0], turned)
        push, (turn,) = self._external([turned], wrenches)
        speed = velocities[1]
        force = dot(
            *((1.0, term) for term in (forces[0], push, self._load)),
            (lever[0], speed * speed),
            minus=((self._damping[0], velocities[0]),),
        )
        torque = dot(
            *((1.0, term) for term in (forces[1], turn)),
            *self._weight(lever),
            minus=((self._damping[1], speed),),
        )
        scaled = self._inverse * lever[1]
        turning = dot((1.0, torque), (scaled, force)) / (
            self._inertias_added[0] - scaled * lever[1]
        )
        return dot((self._inverse, force), (scaled, turning)), turning

    def _accelerate_two(
        self,
        positions: Sequence[Value],
        velocities: Sequence[Value],
        forces: Sequence[Value],
        wrenches: Wrenches,
    ) -> tuple[Value, ...]:
        lower = self._turn(positions[1], self._start[0])
        between = self._turn(positions[2], self._start[1])
        upper = _compose(lower, between)
        levers = _rotate(self._moments[0], lower), _rotate(self._moments[1], upper)
        push, (turn, twist) = self._external([lower, upper], wrenches)
        speed = velocities[1]
        along, across = self._coupling
        coupling = dot((along, between[0]), (across, between[1]))
        slope = dot((across, between[0]), minus=((along, between[1]),))
        squared, top = speed * speed, velocities[1] + velocities[2]
        squared_top = top * top
        force = dot(
            *((1.0, term) for term in (forces[0], push, self._load)),
            (levers[0][0], squared),
            (levers[1][0], squared_top),
            minus=((self._damping[0], velocities[0]),),
        )
        on_upper = dot((1.0, twist), *self._weight(levers[1]), (slope, squared))
        on_lower = dot((1.0, turn), *self._weight(levers[0]), minus=((slope, squared_top),))
        torque = dot(
            *((1.0, term) for term in (on_lower, on_upper, forces[1])),
            minus=((self._damping[1], speed),),
        )
        torque_top = dot(
            *((1.0, term) for term in (on_upper, forces[2])),
            minus=((self._damping[2], velocities[2]),),
        )
        # Inertia of the joints without the slide, whose rows are -(row of levers).
        both = levers[0][1] + levers[1][1]
        scaled, scaled_top = self._inverse * both, self._inverse * levers[1][1]
        first = dot((1.0, self._inertias_added[0]), (1.0, self._inertias[1]), (2.0, coupling))
        first = first - scaled * both
        mixed = dot((1.0, coupling), (1.0, self._inertias[1])) - scaled * levers[1][1]
        last = self._inertias_added[1] - scaled_top * levers[1][1]
        torque, torque_top = (
            dot((1.0, torque), (scaled, force)),
            dot((1.0, torque_top), (scaled_top, force)),
        )
        determinant = first * last - mixed * mixed
        turning = (last * torque - mixed * torque_top) / determinant
        twisting = (first * torque_top - mixed * torque) / determinant
        slide = dot((self._inverse, force), (scaled, turning), (scaled_top, twisting))
        return slide, turning, twisting

    def _turn(self, angle: Value, start: float) -> Vector:
        turned = torch.as_tensor(angle - start if start else angle)
        return torch.cos(turned), torch.sin(turned)

    def _weight(self, lever: Vector) -> tuple[tuple[Value, Value], ...]:
        """Return gravity's torque about a hinge as terms of :func:`dot`."""
        return (self._gravity[1], lever[0]), (-self._gravity[0], lever[1])

    def _external(
        self,
        turned: Sequence[Vector],
        wrenches: Wrenches,
    ) -> tuple[Value, list[Value]]:
        """Return the force of wrenches along the slide, and their torques on the links' angles."""
        push: Value = 0.0
        torques: list[Value] = [0.0] * len(turned)
        for body, wrench in wrenches:
            if body not in self._link_of:
                continue  # fixed to the world
            along, across = (
                dot(*((float(axis[i]), wrench[i]) for i in range(3))) for axis in self._plane
            )
            push = dot((1.0, push), (1.0, along))
            number = self._link_of[body]
            for index in range(number):
                is_own = index == number - 1
                arm = self._arms[body] if is_own else self._spans[index]
                lever = _rotate((float(arm[0]), float(arm[1])), turned[index])
                terms = [(1.0, torques[index]), (lever[0], across)]
                if is_own:
                    terms += [(float(self._normal[i]), wrench[3 + i]) for i in range(3)]
                torques[index] = dot(*terms, minus=((lever[1], along),))
        return push, torques


def _rotate(vector: Sequence[Value], turned: Vector) -> Vector:
    """Return ``vector`` turned by the angle whose cosine and sine are ``turned``."""
    cosine, sine = turned
    return (
        dot((vector[0], cosine), minus=((vector[1], sine),)),
        dot((vector[0], sine), (vector[1], cosine)),
    )


def _compose(first: Vector, second: Vector) -> Vector:
    """Return cosine and sine of the sum of two angles."""
    return (
        dot((first[0], second[0]), minus=((first[1], second[1]),)),
        dot((first[1], second[0]), (first[0], second[1])),
    )


def _round(vector: np.ndarray) -> tuple[float, float]:
    """Return a vector of the plane, with zeros for components that are only rounding errors."""
    u, w = (0.0 if abs(value) < 1e-12 else float(value) for value in vector)
    return u, w
