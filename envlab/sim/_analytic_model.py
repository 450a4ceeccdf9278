"""Reading a compiled model for the ``analytic`` backend, and refusing unsupported ones.

Two structures have dynamics in closed form here: a slide joint that carries one or two parallel
hinges (cart-poles), and one free body (drones). All constants come from the compiled model.
They are numbers if all environments share them, and tensors, ``(num_envs,)``, if they are
randomised. Most of a drone's are zero, so leaving them out of sums of products halves the time of
its step. Poses are the fields ``xpos`` and ``xquat``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import torch

from envlab.errors import SimulationError

_JOINT, _SITE = int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_SITE)
_JOINT_KINDS = {0: "free", 1: "ball", 2: "slide", 3: "hinge"}
CHAINS = (["slide", "hinge"], ["slide", "hinge", "hinge"])
"""Joints of the supported chains, from the world outwards."""

_HARMLESS_FLAGS = sum(
    int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}"))
    for name in (
        *("CONSTRAINT", "EQUALITY", "FRICTIONLOSS", "LIMIT", "CONTACT", "WARMSTART", "REFSAFE"),
        *("FILTERPARENT", "SENSOR", "MIDPHASE", "AUTORESET", "NATIVECCD", "ISLAND", "MULTICCD"),
    )
)
"""``<option><flag>`` switches that have no effect without constraints."""


@dataclass(frozen=True)
class Link:
    """Bodies that move together, in the pose of ``qpos0``; the first has the joint."""

    joint: int
    """Index of the joint that moves the link against the one before."""
    bodies: tuple[int, ...]
    """Indices of its bodies."""


def find_links(model: mujoco.MjModel) -> list[Link]:
    """Return the moving links of a supported model, from the world outwards.

    Raises:
        SimulationError: Naming the parts of the model that the backend does not support.
    """
    for problem in _problems(model):
        raise SimulationError(
            f"The analytic backend cannot simulate this model: {problem}. It knows a slide joint "
            "with one or two parallel hinges on it, or one free body, without contacts or other "
            "constraints, driven by motors. Use env.sim.backend=mujoco (or mujoco_warp on a GPU)."
        )
    return [
        Link(joint, tuple(np.flatnonzero(model.body_weldid == model.jnt_bodyid[joint]).tolist()))
        for joint in range(model.njnt)
    ]


def kinds_of(model: mujoco.MjModel) -> list[str]:
    """Return the kinds of the model's joints, in its order."""
    return [_JOINT_KINDS[int(kind)] for kind in model.jnt_type]


def reference(model: mujoco.MjModel) -> mujoco.MjData:
    """Return the model's data in the pose of ``qpos0``."""
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return data


def control_bounds(model: mujoco.MjModel) -> np.ndarray:
    """Return the bounds of each control, ``(nu, 2)``, infinite where there are none.

    A bound on an actuator's force is one on its control, as its force is gain times control.
    """
    bounds = np.tile([-np.inf, np.inf], (model.nu, 1))
    for index in range(model.nu):
        if model.actuator_ctrllimited[index]:
            bounds[index] = model.actuator_ctrlrange[index]
        gain = float(model.actuator_gainprm[index, 0])
        if model.actuator_forcelimited[index] and gain:
            bounds[index] = bounds[index].clip(*sorted(model.actuator_forcerange[index] / gain))
    return bounds


def _problems(model: mujoco.MjModel) -> Iterator[str]:
    yield from _structure_problems(model)
    yield from _force_problems(model)
    yield from _constraint_problems(model)
    yield from _actuator_problems(model)


def _structure_problems(model: mujoco.MjModel) -> Iterator[str]:
    kinds = kinds_of(model)
    if kinds != ["free"] and kinds not in CHAINS:
        yield f"its joints are {', '.join(kinds) or 'none'}"
        return
    if model.nmocap:
        yield "it has mocap bodies"
    parents = [0, *(int(body) for body in model.jnt_bodyid[:-1])]
    for joint, parent in enumerate(parents):
        body = int(model.jnt_bodyid[joint])
        if model.body_weldid[model.body_parentid[body]] != model.body_weldid[parent]:
            yield f"the joint {model.joint(joint).name!r} is not on the body of the one before it"
        if model.body_jntnum[body] != 1:
            yield f"the body {model.body(body).name!r} has several joints"
    if kinds != ["free"]:
        axes = reference(model).xaxis
        for joint in range(1, model.njnt):
            if abs(axes[0] @ axes[joint]) > 1e-6 or axes[1] @ axes[joint] < 1.0 - 1e-6:
                yield (
                    f"the axis of {model.joint(joint).name!r} is not perpendicular to the slide's, "
                    "or not that of the other hinge"
                )


def _force_problems(model: mujoco.MjModel) -> Iterator[str]:
    integrators = (mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
    if model.opt.integrator not in [int(integrator) for integrator in integrators]:
        name = mujoco.mjtIntegrator(model.opt.integrator).name.removeprefix("mjINT_")
        yield f"its integrator is {name.lower()}, not Euler or implicitfast"
    if model.opt.disableflags & ~_HARMLESS_FLAGS:
        yield "an <option><flag> switches gravity, springs, damping or actuation off"
    if model.opt.density or model.opt.viscosity:
        yield "it is in a fluid (density or viscosity)"
    if model.body_gravcomp.any():
        yield "a body has gravcomp"
    if model.jnt_stiffness.any() or model.jnt_stiffnesspoly.any() or model.jnt_springyield.any():
        yield "a joint has a spring"
    if model.dof_dampingpoly.any():
        yield "a joint has damping that is not linear"
    if kinds_of(model) == ["free"] and (model.dof_armature.any() or model.dof_damping.any()):
        yield "its free joint has damping or armature"


def _constraint_problems(model: mujoco.MjModel) -> Iterator[str]:
    for joint in np.flatnonzero(model.jnt_limited):
        yield f"the joint {model.joint(joint).name!r} has a range, at which it would be stopped"
    if model.dof_frictionloss.any():
        yield "a joint has frictionloss"
    if model.neq or model.ntendon or model.nflex:
        yield "it has equality constraints, tendons or flexes"
    if model.npair:
        yield "it has contact pairs"
    for first in range(model.ngeom):
        for second in range(first):
            if _can_touch(model, first, second):
                names = [model.geom(geom).name or f"#{geom}" for geom in (second, first)]
                yield f"the geoms {names[0]} and {names[1]} can touch (contype, conaffinity)"


def _can_touch(model: mujoco.MjModel, first: int, second: int) -> bool:
    """Return whether MuJoCo would look for contacts between two geoms."""
    types, affinities = model.geom_contype, model.geom_conaffinity
    if not (types[first] & affinities[second] or types[second] & affinities[first]):
        return False
    links = [int(model.body_weldid[model.geom_bodyid[geom]]) for geom in (first, second)]
    above = [int(model.body_weldid[model.body_parentid[link]]) for link in links]
    is_parent = all(links) and (links[0] == above[1] or links[1] == above[0])
    return links[0] != links[1] and not is_parent


def _target(model: mujoco.MjModel, actuator: int) -> int:
    return int(model.actuator_trnid[actuator, 0])


def _actuator_problems(model: mujoco.MjModel) -> Iterator[str]:
    wanted = _SITE if kinds_of(model) == ["free"] else _JOINT
    for index in range(model.nu):
        name = f"the actuator {model.actuator(index).name!r}"
        if model.actuator_trntype[index] != wanted:
            yield f"{name} does not act on a {'site' if wanted == _SITE else 'joint'}"
        elif wanted == _SITE and model.actuator_trnid[index, 1] >= 0:
            yield f"{name} has a refsite"
        elif wanted == _SITE and not model.body_weldid[model.site_bodyid[_target(model, index)]]:
            yield f"{name} acts on a site of the world"
        if (
            model.actuator_gaintype[index] != int(mujoco.mjtGain.mjGAIN_FIXED)
            or model.actuator_biastype[index] != int(mujoco.mjtBias.mjBIAS_NONE)
            or model.actuator_dyntype[index] != int(mujoco.mjtDyn.mjDYN_NONE)
            or model.actuator_armature[index]
            or model.actuator_damping[index]
            or model.actuator_dampingpoly[index].any()
            or model.actuator_delay[index]
        ):
            yield f"{name} is not a plain motor"
    if model.jnt_actfrclimited.any():
        yield "a joint has an actuatorfrcrange"


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
