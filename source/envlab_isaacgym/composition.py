"""Makes one MuJoCo model of a world.

Each degree of freedom has one actuator: a motor, or a drive whose spring and damper act on the end
of a physics step, so that it is stable at any stiffness.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import mujoco
import numpy as np

from envlab.envs.scene import allow_moved_centres
from envlab.errors import ConfigurationError, SimulationError
from envlab_isaacgym.assets import Asset
from envlab_isaacgym.colliders import Colliders
from envlab_isaacgym.enums import AXIS_TRANSLATION
from envlab_isaacgym.parameters import UNLIMITED
from envlab_isaacgym.scene import ATTRACTOR, CONTACT, FORCE_SENSOR, Scene, differing_fields
from envlab_isaacgym.world import Actor, Env, Sim, terrain_name

_ITERATIONS = 10
"""Iterations of solver and line search; with more, a quadruped's step took a third longer."""
_PIN_STEPS = 4
"""Physics steps in which a pin corrects its error; with MuJoCo's least, 2, BallBalance diverged."""


def build_scene(sim: Sim, with_fields: Iterator[str] | tuple[str, ...] = ()) -> Scene:
    """Return the scene of a world.

    Args:
        sim: The world.
        with_fields: Model fields to expand to rows even if all environments are alike.

    Raises:
        ConfigurationError: If there is no environment, or an actor is built differently in another
            environment.
        SimulationError: If MuJoCo cannot compile the model.
    """
    check_alike(sim.envs)
    template = sim.envs[0]
    spec = _empty_spec(sim)
    colliders = Colliders(spec, template)
    _add_ground(spec, sim, colliders)
    names = [_attach(spec, number, sim.envs) for number in range(len(template.actors))]
    for number, actor in enumerate(template.actors):
        colliders.filter(number, actor)
        _add_drives(spec, number, actor)
    colliders.average_friction(sim)
    _add_sensors(spec, sim)
    _add_attractors(spec, template)
    try:
        model = spec.compile()
    except ValueError as error:
        raise SimulationError(f"MuJoCo cannot simulate this world: {error}") from error
    bodies, joints, actors, roots, free = [], [], [], [], []
    for number, (actor, prefix) in enumerate(zip(template.actors, names, strict=True)):
        own = [model.body(prefix + name).id for name in actor.asset.body_names]
        roots.append(own[0])
        bodies += own
        joints += [model.joint(prefix + name).id for name in actor.asset.dof_names]
        actors += [number] * len(actor.asset.dof_names)
        free.append(int(model.body_jntadr[own[0]]) if actor.asset.is_floating else -1)
    scene = Scene(model, {}, bodies, joints, actors, roots, free, pairs=colliders.pairs)
    scene.fields = differing_fields(sim, scene, colliders, set(with_fields))
    return scene


def check_alike(envs: list[Env]) -> None:
    """Refuse environments that one model cannot represent; see :func:`build_scene`."""
    if not envs:
        raise ConfigurationError("The simulation has no environments. Call create_env first.")
    first, build = envs[0].actors, functools.cache(_build)  # many actors share an asset
    for env in envs:
        if len(env.actors) != len(first):
            raise ConfigurationError(
                f"Environment {env.index} has {len(env.actors)} actors, environment 0 has "
                f"{len(first)}, but there is one MuJoCo model for all: create the same in each."
            )
        for actor, other in zip(env.actors, first, strict=True):
            if actor.asset is not other.asset and build(actor.asset) != build(other.asset):
                raise ConfigurationError(
                    f"Actor {actor.name!r} of environment {env.index} is {actor.asset.name!r}, "
                    f"that of environment 0 is {other.asset.name!r}, but there is one MuJoCo model "
                    "for all: the two may differ in sizes, masses and places, not in their joints, "
                    "in kinds and numbers of their shapes, or in meshes."
                )


def _build(asset: Asset) -> tuple[object, ...]:
    """Return the properties of an actor that must be equal in all environments."""
    model = asset.model
    joints = (model.jnt_type, model.jnt_bodyid, model.jnt_pos.round(9), model.jnt_axis.round(9))
    shapes = (model.geom_type, model.geom_bodyid, model.geom_contype, model.geom_conaffinity)
    meshes = (model.mesh_vert, model.mesh_face)
    values = (model.body_parentid, *joints, *shapes, *meshes)
    is_light = asset.options.disable_gravity
    return (is_light, model.ntendon, len(asset.force_sensors), *(v.tobytes() for v in values))


def _empty_spec(sim: Sim) -> mujoco.MjSpec:
    spec, params = mujoco.MjSpec(), sim.params
    option = spec.option
    option.timestep = params.dt / sim.physics_steps
    option.gravity = np.asarray(params.gravity)
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.iterations = option.ls_iterations = _ITERATIONS
    spec.compiler.degree = False
    return spec


def _attach(spec: mujoco.MjSpec, number: int, envs: list[Env]) -> str:
    """Join an actor's asset to the scene; return the prefix of its names."""
    prefix, actor = f"{number}/", envs[0].actors[number]
    copied = actor.asset.spec.copy()
    if any(env.actors[number].bodies is not actor.asset.bodies for env in envs):
        allow_moved_centres(copied)
    body = spec.worldbody.add_frame().attach_body(copied.worldbody.first_body(), prefix, "")
    body.pos, body.quat = np.asarray(actor.pose.p), actor.pose.r.wxyz
    if actor.asset.options.disable_gravity:
        for name in actor.asset.body_names:
            spec.body(prefix + name).gravcomp = 1.0
    return prefix


def _add_drives(spec: mujoco.MjSpec, number: int, actor: Actor) -> None:
    for row, name in enumerate(actor.asset.dof_names):
        joint = spec.joint(f"{number}/{name}")
        joint.limited = bool(actor.dof_properties["hasLimits"][row])
        if joint.limited:
            joint.range = [-UNLIMITED, UNLIMITED]  # written with the other properties
        actuator = spec.add_actuator(
            name=f"{number}/{name}",
            target=f"{number}/{name}",
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
        )
        actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
        actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        actuator.forcelimited = True
        actuator.forcerange = [-UNLIMITED, UNLIMITED]


def _add_attractors(spec: mujoco.MjSpec, env: Env) -> None:
    """Pin points of bodies to points of the world, as rigidly as the time step allows."""
    for number, attractor in enumerate(env.attractors):
        actor, index = env.actor_of_body(attractor.rigid_handle)
        body = spec.body(f"{actor}/{env.actors[actor].asset.body_names[index]}")
        name, offset = f"{ATTRACTOR}{number}/", attractor.offset
        body.add_site(name=f"{name}own", pos=np.asarray(offset.p), quat=offset.r.wxyz)
        spec.worldbody.add_site(name=f"{name}target")  # placed with the other properties
        is_point = attractor.axes == AXIS_TRANSLATION
        kind = mujoco.mjtEq.mjEQ_CONNECT if is_point else mujoco.mjtEq.mjEQ_WELD
        spec.add_equality(
            name=f"{name}pin",
            type=kind,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1=f"{name}own",
            name2=f"{name}target",
            solref=[_PIN_STEPS * spec.option.timestep, 1.0],
        )


def _add_sensors(spec: mujoco.MjSpec, sim: Sim) -> None:
    """Add the sensors of each wanted kind; those of contacts lie side by side."""
    actors = list(enumerate(sim.envs[0].actors))
    if CONTACT in sim.wanted:
        for number, actor in actors:
            for name in actor.asset.body_names:
                # The second number selects the force, the third the sum over contacts.
                spec.add_sensor(
                    name=f"{CONTACT}{number}/{name}",
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    objtype=mujoco.mjtObj.mjOBJ_BODY,
                    objname=f"{number}/{name}",
                    intprm=[2, 3, 1],
                )
    if FORCE_SENSOR in sim.wanted:
        for number, actor in actors:
            for body in sorted({sensor.body for sensor in actor.asset.force_sensors}):
                name = actor.asset.body_names[body]
                for kind in ("LIN", "ANG"):
                    spec.add_sensor(
                        name=f"{kind}{number}/{name}",
                        type=getattr(mujoco.mjtSensor, f"mjSENS_FRAME{kind}ACC"),
                        objtype=mujoco.mjtObj.mjOBJ_BODY,
                        objname=f"{number}/{name}",
                    )


def _add_ground(spec: mujoco.MjSpec, sim: Sim, colliders: Colliders) -> None:
    if sim.ground is not None:
        normal, quat = np.asarray(sim.ground.normal), np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, normal)
        spec.worldbody.add_geom(
            name="ground",
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[0, 0, 1],
            quat=quat,
            pos=-normal * sim.ground.distance,
        )
        colliders.add_static("ground", sim.ground.dynamic_friction)
    for number, terrain in enumerate(sim.terrains):
        low, high = float(terrain.heights.min()), float(terrain.heights.max())
        extent = max(high - low, 1e-3)
        num_x, num_y = terrain.heights.shape
        half = [
            count * cell / 2
            for count, cell in zip((num_x - 1, num_y - 1), terrain.cell, strict=True)
        ]
        name = terrain_name(number)
        field = spec.add_hfield(name=name, nrow=num_y, ncol=num_x, size=[*half, extent, 1.0])
        field.userdata = ((terrain.heights.T - low) / extent).ravel().astype(np.float32)
        spec.worldbody.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_HFIELD,
            hfieldname=name,
            pos=np.asarray(terrain.origin) + np.array([*half, low]),
        )
        colliders.add_static(name, terrain.params.dynamic_friction)
