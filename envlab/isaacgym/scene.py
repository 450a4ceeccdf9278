"""Makes one MuJoCo model of a world, and the rows in which its environments differ.

- Every environment has the same actors, so there is one model; masses, frictions, gains and the
  like that differ are rows of model fields, ``(num_envs, ...)``, rather than copies of the model.
- Friction of two surfaces is their average, as in PhysX, where MuJoCo would take the maximum: pairs
  of shapes for which the two differ become explicit contact pairs.
- Each degree of freedom has one actuator: a motor, or a drive whose spring and damper act on the
  end of a physics step, so that it is stable at any stiffness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from envlab.errors import ConfigurationError, SimulationError
from envlab.isaacgym.drives import DriveGains
from envlab.isaacgym.parameters import UNLIMITED
from envlab.isaacgym.values import Transform
from envlab.isaacgym.world import Actor, Env, Sim

CONTACT, FORCE_SENSOR = "contact", "force_sensor"
_FILTER_BITS = 31
_ITERATIONS = 10
"""Of the solver and its line search; with more, a quadruped's step took a third longer."""
_TORSION_ROLL = (0.005, 0.0001)


@dataclass
class Scene:
    """A model, the values of fields in which environments differ, and where things lie in it.

    Attributes:
        fields: Model fields, ``(num_envs, ...)``.
        bodies: Ids of all actors' bodies, in order.
        dof_joints: Ids of all actors' joints that are degrees of freedom, in order.
        dof_actors: The actor of each degree of freedom.
        roots: Ids of each actor's first body.
        free_joints: Ids of each actor's floating joint; -1: it is fixed.
        drives: What drives do; None without degrees of freedom.
    """

    model: mujoco.MjModel
    fields: dict[str, np.ndarray]
    bodies: list[int]
    dof_joints: list[int]
    dof_actors: list[int]
    roots: list[int]
    free_joints: list[int]
    drives: DriveGains | None = None


def build_scene(sim: Sim, with_fields: Iterator[str] | tuple[str, ...] = ()) -> Scene:
    """Return the scene of a world.

    Args:
        sim: The world.
        with_fields: Model fields to have rows of even where all environments are alike.

    Raises:
        ConfigurationError: If there is no environment, or they do not have the same actors.
        SimulationError: If MuJoCo cannot compile the model.
    """
    _check_alike(sim.envs)
    template = sim.envs[0]
    spec = _empty_spec(sim)
    colliders = _Colliders(spec, template)
    _add_ground(spec, sim, colliders)
    names = [_attach(spec, number, actor) for number, actor in enumerate(template.actors)]
    for number, actor in enumerate(template.actors):
        colliders.filter(number, actor)
        _add_drives(spec, number, actor)
    colliders.average_friction(sim)
    _add_sensors(spec, sim)
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
    scene = Scene(model, {}, bodies, joints, actors, roots, free)
    scene.fields = _differing(sim, scene, colliders, set(with_fields))
    return scene


def _check_alike(envs: list[Env]) -> None:
    if not envs:
        raise ConfigurationError("The simulation has no environments. Call create_env first.")
    first = [(actor.asset, actor.name) for actor in envs[0].actors]
    for env in envs:
        if [(actor.asset, actor.name) for actor in env.actors] != first:
            raise ConfigurationError(
                f"Environment {env.index} has other actors than environment 0, but all must have "
                "the same assets in the same order: there is one MuJoCo model for all."
            )


def _empty_spec(sim: Sim) -> mujoco.MjSpec:
    spec, params = mujoco.MjSpec(), sim.params
    option = spec.option
    option.timestep = params.dt / max(1, params.substeps)
    option.gravity = np.asarray(params.gravity)
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.iterations = option.ls_iterations = _ITERATIONS
    spec.compiler.degree = False
    return spec


def _attach(spec: mujoco.MjSpec, number: int, actor: Actor) -> str:
    """Join an actor's asset to the scene; return the prefix of its names."""
    prefix = f"{number}/"
    copied = actor.asset.spec.copy()
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


def _add_sensors(spec: mujoco.MjSpec, sim: Sim) -> None:
    for number, actor in enumerate(sim.envs[0].actors):
        if CONTACT in sim.wanted:
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
            for body in sorted({sensor.body for sensor in actor.asset.force_sensors}):
                name = actor.asset.body_names[body]
                for kind in ("LIN", "ANG"):
                    spec.add_sensor(
                        name=f"{kind}{number}/{name}",
                        type=getattr(mujoco.mjtSensor, f"mjSENS_FRAME{kind}ACC"),
                        objtype=mujoco.mjtObj.mjOBJ_BODY,
                        objname=f"{number}/{name}",
                    )


def _add_ground(spec: mujoco.MjSpec, sim: Sim, colliders: _Colliders) -> None:
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
    if sim.terrain is not None:
        terrain = sim.terrain
        low, high = float(terrain.heights.min()), float(terrain.heights.max())
        extent = max(high - low, 1e-3)
        num_x, num_y = terrain.heights.shape
        half = [
            count * cell / 2
            for count, cell in zip((num_x - 1, num_y - 1), terrain.cell, strict=True)
        ]
        field = spec.add_hfield(name="terrain", nrow=num_y, ncol=num_x, size=[*half, extent, 1.0])
        field.userdata = ((terrain.heights.T - low) / extent).ravel().astype(np.float32)
        spec.worldbody.add_geom(
            name="terrain",
            type=mujoco.mjtGeom.mjGEOM_HFIELD,
            hfieldname="terrain",
            pos=np.asarray(terrain.origin) + np.array([*half, low]),
        )
        colliders.add_static("terrain", terrain.params.dynamic_friction)


class _Colliders:
    """Which shapes of a scene collide, and with what friction."""

    def __init__(self, spec: mujoco.MjSpec, template: Env) -> None:
        self._spec = spec
        self._static: dict[str, float] = {}
        self._shapes: list[tuple[str, int, int]] = []
        self.pairs: list[tuple[int | float, int]] = []
        codes = {(-1, 0)}
        for actor in template.actors:
            codes |= {_filter_code(actor, shape) for shape in range(len(actor.asset.shapes))}
        self._codes = sorted(codes)
        if len(self._codes) > _FILTER_BITS:
            raise ConfigurationError(
                f"The actors have {len(self._codes)} different collision filters, but at most "
                f"{_FILTER_BITS} can be told apart. Use fewer."
            )

    def add_static(self, name: str, friction: float) -> None:
        """Let the ground or a terrain collide with everything."""
        self._static[name] = friction
        geom = self._spec.geom(name)
        geom.friction = [friction, *_TORSION_ROLL]
        self._set(geom, (-1, 0))

    def filter(self, number: int, actor: Actor) -> None:
        """Set which shapes an actor's collide with: those whose filters share no bit."""
        model = actor.asset.model
        for shape in range(model.ngeom):
            name = f"{number}/{model.geom(shape).name}"
            geom = self._spec.geom(name)
            if model.geom_contype[shape] or model.geom_conaffinity[shape]:
                self._shapes.append((name, number, shape))
                self._set(geom, _filter_code(actor, shape))
            geom.friction = [actor.shapes[shape].friction, *_TORSION_ROLL]

    def _set(self, geom: mujoco.MjsGeom, code: tuple[int, int]) -> None:
        geom.contype = 1 << self._codes.index(code)
        geom.conaffinity = sum(
            1 << bit for bit, other in enumerate(self._codes) if _collide(code, other)
        )

    def average_friction(self, sim: Sim) -> None:
        """Make pairs of shapes for which the average differs from the larger friction."""
        frictions = [
            np.array([env.actors[number].shapes[shape].friction for env in sim.envs])
            for _, number, shape in self._shapes
        ]
        for index, (name, _, _) in enumerate(self._shapes):
            for static, friction in self._static.items():
                if np.any(frictions[index] != friction):
                    self._add_pair(static, name, (friction, index))
        if all(np.array_equal(frictions[0], other) for other in frictions):
            return
        for first, second in _index_pairs(len(self._shapes)):
            if not np.array_equal(frictions[first], frictions[second]) and self._may_touch(
                first, second
            ):
                self._add_pair(self._shapes[first][0], self._shapes[second][0], (first, second))

    def _may_touch(self, first: int, second: int) -> bool:
        geoms = [self._spec.geom(self._shapes[index][0]) for index in (first, second)]
        bodies = [geom.parent for geom in geoms]
        names = [body.name for body in bodies]
        parents = [body.parent.name for body in bodies]
        is_near = names[0] == names[1] or names[0] == parents[1] or names[1] == parents[0]
        return not is_near and bool(
            geoms[0].contype & geoms[1].conaffinity or geoms[1].contype & geoms[0].conaffinity
        )

    def _add_pair(self, first: str, second: str, source: tuple[int | float, int]) -> None:
        self._spec.add_pair(geomname1=first, geomname2=second, condim=3)
        self.pairs.append(source)

    def pair_friction(self, sim: Sim) -> np.ndarray:
        """Return the average friction of each pair, ``(num_envs, num_pairs, 5)``."""
        values = np.zeros((len(sim.envs), len(self.pairs), 5))
        values[..., 2:] = (_TORSION_ROLL[0], _TORSION_ROLL[1], _TORSION_ROLL[1])
        for pair, (first, second) in enumerate(self.pairs):
            one = first if isinstance(first, float) else self._friction(sim, first)
            values[:, pair, :2] = ((one + self._friction(sim, second)) / 2)[:, None]
        return values

    def _friction(self, sim: Sim, index: int) -> np.ndarray:
        _, number, shape = self._shapes[index]
        return np.array([env.actors[number].shapes[shape].friction for env in sim.envs])


def _filter_code(actor: Actor, shape: int) -> tuple[int, int]:
    """Return the collision group of an actor, and the filter of one of its shapes."""
    bits = actor.shapes[shape].filter if actor.filter == -1 else actor.filter
    return (-1 if actor.group == -1 else actor.group), bits


def _collide(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two shapes collide: groups agree, unless one is -1, and no bit is shared."""
    is_same_group = -1 in (one[0], other[0]) or one[0] == other[0]
    return is_same_group and (one[1] & other[1]) == 0


def _index_pairs(count: int) -> Iterator[tuple[int, int]]:
    return ((first, second) for first in range(count) for second in range(first + 1, count))


def _differing(
    sim: Sim, scene: Scene, colliders: _Colliders, wanted: set[str]
) -> dict[str, np.ndarray]:
    """Write all properties into the model; return the fields in which environments differ."""
    rows: dict[str, np.ndarray] = {}
    for name, values in _all_values(sim, scene, colliders):
        if not values.size:
            continue
        target = getattr(scene.model, name)
        target[:] = values[0].reshape(target.shape)
        if name in wanted or not np.array_equal(values, np.broadcast_to(values[0], values.shape)):
            rows[name] = values
    mujoco.mj_setConst(scene.model, mujoco.MjData(scene.model))
    return rows


def _all_values(sim: Sim, scene: Scene, colliders: _Colliders) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the model fields that properties become, ``(num_envs, ...)`` each."""
    yield "pair_friction", colliders.pair_friction(sim)
    yield from _drive_values(sim, scene)
    yield from _body_values(sim, scene)
    yield from _root_values(sim, scene)


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
    effort = np.where(drives.is_stiff, UNLIMITED, drives.effort)  # see envlab.isaacgym.drives
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


def _body_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Yield masses and inertias of bodies whose properties are not those of their assets."""
    model, count = scene.model, len(sim.envs)
    fields = {
        name: np.repeat(getattr(model, name)[None], count, axis=0)
        for name in ("body_mass", "body_ipos", "body_inertia")
    }
    first = 0
    for number, actor in enumerate(sim.envs[0].actors):
        usual = actor.asset.bodies
        for env in sim.envs:
            given = env.actors[number].bodies
            if given is usual:
                continue
            for index, (new, old) in enumerate(zip(given, usual, strict=True)):
                body = scene.bodies[first + index]
                if new.mass != old.mass:
                    fields["body_mass"][env.index, body] = new.mass
                    fields["body_inertia"][env.index, body] *= new.mass / old.mass
                if new.com != old.com:
                    fields["body_ipos"][env.index, body] = np.asarray(new.com)
        first += len(usual)
    yield from fields.items()


def _root_values(sim: Sim, scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Yield where fixed actors stand; those that float have it in their state."""
    model, count = scene.model, len(sim.envs)
    positions = np.repeat(model.body_pos[None], count, axis=0)
    rotations = np.repeat(model.body_quat[None], count, axis=0)
    for number, root in enumerate(scene.roots):
        if scene.free_joints[number] < 0:
            poses: list[Transform] = [env.actors[number].pose for env in sim.envs]
            positions[:, root] = [np.asarray(pose.p) for pose in poses]
            rotations[:, root] = [pose.r.wxyz for pose in poses]
    yield "body_pos", positions
    yield "body_quat", rotations


def dof_properties(sim: Sim) -> np.ndarray:
    """Return the properties of all degrees of freedom, ``(num_envs, num_dofs)``."""
    rows = [[actor.dof_properties for actor in env.actors] for env in sim.envs]
    return np.stack([np.concatenate(row) for row in rows])
