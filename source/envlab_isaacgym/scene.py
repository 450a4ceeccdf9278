"""A world's model, and its fields with the properties of actors.

Every environment has actors of the same build, so there is one model; sizes, masses, frictions,
gains and the like that differ are rows of model fields, ``(num_envs, ...)``, rather than copies of
the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import mujoco
import numpy as np

from envlab_isaacgym.colliders import Colliders
from envlab_isaacgym.drives import DriveGains
from envlab_isaacgym.parameters import UNLIMITED
from envlab_isaacgym.values import Transform
from envlab_isaacgym.world import Sim

CONTACT, FORCE_SENSOR = "contact", "force_sensor"
ATTRACTOR = "attractor"


@dataclass
class Scene:
    """A model, the values of fields in which environments differ, and the indices of its parts.

    Attributes:
        fields: Model fields, ``(num_envs, ...)``.
        bodies: Ids of all actors' bodies, in order.
        dof_joints: Ids of all actors' joints that are degrees of freedom, in order.
        dof_actors: The actor of each degree of freedom.
        roots: Ids of each actor's first body.
        free_joints: Ids of each actor's floating joint; -1: it is fixed.
        drives: Gains of drives; None without degrees of freedom.
    """

    model: mujoco.MjModel
    fields: dict[str, np.ndarray]
    bodies: list[int]
    dof_joints: list[int]
    dof_actors: list[int]
    roots: list[int]
    free_joints: list[int]
    drives: DriveGains | None = None
    pairs: list[tuple[int | float, int]] = field(default_factory=list)
    """Shapes with their own friction; see :class:`Colliders`."""
    shared: dict[str, np.ndarray] = field(default_factory=dict)
    """Values of fields that are the same in all environments."""


def differing_fields(
    sim: Sim, scene: Scene, colliders: Colliders, wanted: set[str]
) -> dict[str, np.ndarray]:
    """Write all properties into the model; return the fields in which environments differ.

    Args:
        sim: The world.
        scene: Its scene, whose model is changed.
        colliders: Its shapes.
        wanted: Fields to return even if all environments are alike.
    """
    rows: dict[str, np.ndarray] = {}
    for name, values in _all_values(sim, scene, colliders):
        if not values.size:
            continue
        target = getattr(scene.model, name)
        target[:] = values[0].reshape(target.shape)
        if name in wanted or not np.array_equal(values, np.broadcast_to(values[0], values.shape)):
            rows[name] = values
        else:
            scene.shared[name] = values[0]
    mujoco.mj_setConst(scene.model, mujoco.MjData(scene.model))
    return rows


def _all_values(sim: Sim, scene: Scene, colliders: Colliders) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the model fields for properties, ``(num_envs, ...)`` each."""
    yield "geom_friction", colliders.shape_friction(sim, scene.model)
    yield "pair_friction", colliders.pair_friction(sim, scene.model)
    yield from _drive_values(sim, scene)
    yield from _body_values(sim, scene)
    yield from _root_values(sim, scene)
    yield from _size_values(sim, scene)
    yield from _target_values(sim, scene)
    yield from _tendon_values(sim, scene)


def _drive_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    model, count = scene.model, len(sim.envs)
    dofs = model.jnt_dofadr[scene.dof_joints]
    if not len(dofs):
        return
    properties = dof_properties(sim)
    drives = scene.drives = DriveGains(properties, model, dofs)
    gains = np.zeros((count, *model.actuator_gainprm.shape))
    gains[..., 0] = drives.gain
    biases = np.zeros((count, *model.actuator_biasprm.shape))
    # A spring that acts on the end of a step, q + h v, adds h k to the damping, which the
    # integrator takes implicitly: stable at any stiffness.
    biases[..., 1], biases[..., 2] = -drives.spring, -drives.damper
    yield "actuator_gainprm", gains
    yield "actuator_biasprm", biases
    effort = np.where(drives.is_stiff, UNLIMITED, drives.effort)  # see envlab_isaacgym.drives
    yield "actuator_forcerange", np.stack([-effort, effort], axis=-1)
    passive = ~drives.is_driven
    for name, source, places in (
        ("dof_damping", np.where(passive, properties["damping"], 0.0), dofs),
        ("dof_frictionloss", properties["friction"], dofs),
        ("dof_armature", properties["armature"], dofs),
        ("jnt_stiffness", np.where(passive, properties["stiffness"], 0.0), scene.dof_joints),
    ):
        values = np.repeat(getattr(model, name)[None], count, axis=0).astype(float)
        values[:, places] = source
        yield name, values
    limits = np.repeat(model.jnt_range[None], count, axis=0)
    has_limits = properties["hasLimits"]
    limits[:, scene.dof_joints, 0] = np.where(has_limits, properties["lower"], -UNLIMITED)
    limits[:, scene.dof_joints, 1] = np.where(has_limits, properties["upper"], UNLIMITED)
    yield "jnt_range", limits


def _of_assets(sim: Sim, scene: Scene, name: str) -> np.ndarray:
    """Return a field of bodies or shapes, with the values of each environment's own assets."""
    values = np.repeat(getattr(scene.model, name)[None], len(sim.envs), axis=0)
    first = 0
    for number, actor in enumerate(sim.envs[0].actors):
        bodies = scene.bodies[first : first + len(actor.asset.body_names)]
        first += len(bodies)
        for env in sim.envs:
            asset = env.actors[number].asset
            if asset is actor.asset:
                continue
            own = np.array([asset.model.body(body).id for body in asset.body_names])
            places = np.array(bodies)
            if name.startswith("geom_"):
                own, places = _shapes_of(asset.model, own), _shapes_of(scene.model, places)
            elif name in ("body_pos", "body_quat"):  # the root's is its actor's place
                own, places = own[1:], places[1:]
            values[env.index, places] = getattr(asset.model, name)[own]
    return values


def _shapes_of(model: mujoco.MjModel, bodies: np.ndarray) -> np.ndarray:
    """Return the ids of the shapes of bodies, body by body."""
    ranges = zip(model.body_geomadr[bodies], model.body_geomnum[bodies], strict=True)
    return np.concatenate([np.arange(first, first + count) for first, count in ranges])


def _body_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Yield masses and inertias of bodies, which actors may override."""
    names = ("body_mass", "body_ipos", "body_inertia", "body_iquat")
    fields = {name: _of_assets(sim, scene, name) for name in names}
    first = 0
    for number, actor in enumerate(sim.envs[0].actors):
        for env in sim.envs:
            usual = env.actors[number].asset.bodies
            given, scale = env.actors[number].bodies, env.actors[number].scale
            if given is usual and scale == 1.0:
                continue
            for index, (new, old) in enumerate(zip(given, usual, strict=True)):
                body = scene.bodies[first + index]
                mass = new.mass * scale**3
                if mass != old.mass:
                    fields["body_mass"][env.index, body] = mass
                    fields["body_inertia"][env.index, body] *= mass / old.mass * scale**2
                if new.com != old.com or scale != 1.0:
                    fields["body_ipos"][env.index, body] = np.asarray(new.com) * scale
        first += len(actor.asset.bodies)
    yield from fields.items()


def _root_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the places of fixed actors; floating ones have them in their state."""
    positions = _of_assets(sim, scene, "body_pos")
    rotations = _of_assets(sim, scene, "body_quat")
    for number, root in enumerate(scene.roots):
        if scene.free_joints[number] < 0:
            poses: list[Transform] = [env.actors[number].pose for env in sim.envs]
            positions[:, root] = [np.asarray(pose.p) for pose in poses]
            rotations[:, root] = [pose.r.wxyz for pose in poses]
    yield "body_pos", positions
    yield "body_quat", rotations


def _size_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Yield sizes and places of shapes; ``set_actor_scale`` changes them."""
    yield "geom_quat", _of_assets(sim, scene, "geom_quat")
    scales = np.array([[actor.scale for actor in env.actors] for env in sim.envs])
    for name in ("geom_size", "geom_pos"):
        values = _of_assets(sim, scene, name)
        for number, root in enumerate(scene.roots):
            shapes = scene.model.geom_bodyid == root
            values[:, shapes] *= scales[:, number, None, None]
        yield name, values


def _target_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Yield attractors' targets."""
    if not sim.envs[0].attractors:
        return
    model = scene.model
    positions = np.repeat(model.site_pos[None], len(sim.envs), axis=0)
    rotations = np.repeat(model.site_quat[None], len(sim.envs), axis=0)
    for number in range(len(sim.envs[0].attractors)):
        site = model.site(f"{ATTRACTOR}{number}/target").id
        targets = [env.attractors[number].target for env in sim.envs]
        positions[:, site] = [np.asarray(target.p) for target in targets]
        rotations[:, site] = [target.r.wxyz for target in targets]
    yield "site_pos", positions
    yield "site_quat", rotations


def _tendon_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Yield stiffnesses and dampings of tendons, whose actors are in order."""
    rows = [[tendon for actor in env.actors for tendon in actor.tendons] for env in sim.envs]
    if scene.model.ntendon:
        for name in ("stiffness", "damping"):
            values = [[getattr(tendon, name) for tendon in row] for row in rows]
            yield f"tendon_{name}", np.array(values)


def dof_properties(sim: Sim) -> np.ndarray:
    """Return the properties of all degrees of freedom, ``(num_envs, num_dofs)``."""
    rows = [[actor.dof_properties for actor in env.actors] for env in sim.envs]
    return np.stack([np.concatenate(row) for row in rows])
