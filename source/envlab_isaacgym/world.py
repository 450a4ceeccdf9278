"""Results of ``create_sim``, ``create_env`` and ``create_actor``: the description of a world.

Nothing is simulated here. :mod:`envlab_isaacgym.scene` makes a model of a world when a step, or a
value that needs one, is first requested, so earlier calls may come in any order.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from envlab_isaacgym.assets import Asset
from envlab_isaacgym.parameters import (
    AttractorProperties,
    CameraProperties,
    HeightFieldParams,
    PlaneParams,
    RigidBodyProperties,
    RigidShapeProperties,
    SimParams,
    TendonProperties,
    TriangleMeshParams,
)
from envlab_isaacgym.values import DofState, Transform, Vec3

_PIN_STEPS = 8
"""Factor of finer steps if attractors pin bodies. MuJoCo solves for pins without the part
of drives that is implicit, so stiff drives in a chain that pins close (IsaacGymEnvs'
BallBalance) diverge with steps of 5 ms and are stable with 1.25.
"""


@dataclass(eq=False)
class Actor:
    """One asset in one environment.

    Properties are the asset's until the actor gets its own.
    """

    asset: Asset
    pose: Transform
    name: str
    group: int
    filter: int
    dof_properties: np.ndarray
    shapes: list[RigidShapeProperties]
    bodies: list[RigidBodyProperties]
    tendons: list[TendonProperties]
    dof_states: np.ndarray
    scale: float = 1.0
    has_dof_force_sensors: bool = False
    segmentation_ids: dict[int, int] = field(default_factory=dict)
    """Ids of bodies that differ from :attr:`segmentation_id`."""
    segmentation_id: int = 0

    @classmethod
    def of(cls, asset: Asset, pose: Transform, name: str, group: int, filter: int) -> Actor:
        """Return an actor of an asset; later changes of the asset do not affect it."""
        return cls(
            asset=asset,
            pose=copy.copy(pose),
            name=name,
            group=group,
            filter=filter,
            dof_properties=asset.dof_properties,
            shapes=asset.shapes,
            bodies=asset.bodies,
            tendons=asset.tendon_properties(),
            dof_states=np.zeros(len(asset.dof_names), DofState.dtype),
        )

    def segmentation_of(self, body: int) -> int:
        """Return the number of a body in pictures of ``IMAGE_SEGMENTATION``."""
        return self.segmentation_ids.get(body, self.segmentation_id)


@dataclass(eq=False)
class Env:
    """Actors that interact with each other."""

    sim: Sim
    index: int
    origin: Vec3
    actors: list[Actor] = field(default_factory=list)
    cameras: list[Any] = field(default_factory=list)
    attractors: list[AttractorProperties] = field(default_factory=list)

    def first_body(self, actor: int) -> int:
        """Return the index in this environment of an actor's first body."""
        return sum(len(before.asset.body_names) for before in self.actors[:actor])

    def first_dof(self, actor: int) -> int:
        """Return the index in this environment of an actor's first degree of freedom."""
        return sum(len(before.asset.dof_names) for before in self.actors[:actor])

    def first_joint(self, actor: int) -> int:
        """Return the index in this environment of an actor's first joint."""
        return sum(len(before.asset.joint_names) for before in self.actors[:actor])

    @property
    def num_bodies(self) -> int:
        """Number of bodies of all actors."""
        return self.first_body(len(self.actors))

    @property
    def num_dofs(self) -> int:
        """Number of degrees of freedom of all actors."""
        return self.first_dof(len(self.actors))

    @property
    def num_joints(self) -> int:
        """Number of joints of all actors."""
        return self.first_joint(len(self.actors))

    def actor_of_body(self, body: int) -> tuple[int, int]:
        """Return the actor of a body of this environment, and the body's index in it."""
        for number, actor in enumerate(self.actors):
            if body < len(actor.asset.body_names):
                return number, body
            body -= len(actor.asset.body_names)
        raise IndexError(f"The environment has no body {body}; it has {self.num_bodies}.")

    def actor_of_dof(self, dof: int) -> tuple[int, int]:
        """Return the actor of a degree of freedom, and its index in it."""
        for number, actor in enumerate(self.actors):
            if dof < len(actor.asset.dof_names):
                return number, dof
            dof -= len(actor.asset.dof_names)
        raise IndexError(f"The environment has no DOF {dof}; it has {self.num_dofs}.")


@dataclass
class HeightField:
    """A terrain of heights in m, ``(along x, along y)``, whose corner lies at ``origin``."""

    heights: np.ndarray
    cell: tuple[float, float]
    origin: Vec3
    params: HeightFieldParams | TriangleMeshParams


def terrain_name(number: int) -> str:
    """Return the name of a terrain's shape in the model."""
    return f"terrain{number}"


@dataclass(eq=False)
class Sim:
    """A world of environments, its ground and terrains."""

    params: SimParams
    device: str
    envs: list[Env] = field(default_factory=list)
    ground: PlaneParams | None = None
    terrains: list[HeightField] = field(default_factory=list)
    wanted: set[str] = field(default_factory=set)
    """Acquired tensors other than states."""
    frame: int = 0
    pictures: dict[tuple[int, int], Any] = field(default_factory=dict)
    """Its pictures' drawers, by width and height: see :mod:`envlab_isaacgym.pictures`."""
    physics: Any = None
    """Its physics, made on first use: see :mod:`envlab_isaacgym.physics`."""

    @property
    def physics_steps(self) -> int:
        """Number of physics steps in one step."""
        finer = _PIN_STEPS if self.envs and self.envs[0].attractors else 1
        return finer * max(1, self.params.substeps)

    def count(self, name: str) -> int:
        """Return the sum over environments of ``num_bodies``, ``num_dofs`` or ``num_joints``."""
        return sum(getattr(env, name) for env in self.envs)


@dataclass(eq=False)
class Viewer:
    """A script's window: the pose of its camera, and its contents."""

    sim: Sim
    properties: CameraProperties = field(default_factory=CameraProperties)
    pose: Transform = field(default_factory=Transform)
    """Pose of the camera in the world, which looks along x with z upwards."""
