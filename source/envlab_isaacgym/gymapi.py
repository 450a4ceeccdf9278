"""``isaacgym.gymapi``: Isaac Gym's interface to simulation, on MuJoCo."""

from __future__ import annotations

from typing import Any

import numpy as np

from envlab_isaacgym.absent_records import *  # noqa: F403
from envlab_isaacgym.assets import Asset as Asset
from envlab_isaacgym.enums import *  # noqa: F403
from envlab_isaacgym.enums import ENUMERATIONS
from envlab_isaacgym.gym.actors import Actors
from envlab_isaacgym.gym.assets import Assets
from envlab_isaacgym.gym.attractors import Attractors
from envlab_isaacgym.gym.cameras import Cameras
from envlab_isaacgym.gym.missing import Missing
from envlab_isaacgym.gym.states import States
from envlab_isaacgym.gym.tensors import Tensors
from envlab_isaacgym.gym.viewers import Viewers
from envlab_isaacgym.gym.windows import Windows
from envlab_isaacgym.gym.worlds import Worlds
from envlab_isaacgym.parameters import *  # noqa: F403
from envlab_isaacgym.tensor import Tensor as Tensor
from envlab_isaacgym.values import *  # noqa: F403
from envlab_isaacgym.values import Quat, Transform, Vec3
from envlab_isaacgym.world import Env as Env
from envlab_isaacgym.world import Sim as Sim
from envlab_isaacgym.world import Viewer as Viewer

for _kind in ENUMERATIONS:
    globals().update(_kind.__members__)


class Gym(Windows, Worlds, Assets, Actors, Attractors, States, Tensors, Cameras, Viewers, Missing):
    """All methods of Isaac Gym's ``Gym``; missing ones raise NotImplementedError."""


class ForceSensor:
    """Result of ``get_actor_force_sensor``, which is missing."""

    def get_forces(self) -> Any:
        raise NotImplementedError("ForceSensor.get_forces: see Gym.get_actor_force_sensor.")

    def get_global_index(self) -> int:
        raise NotImplementedError("ForceSensor.get_global_index: see Gym.get_actor_force_sensor.")


class UsdExporter:
    """Result of ``create_usd_exporter``, which is missing."""


_gym = Gym()


def acquire_gym(*arguments: Any, **keywords: Any) -> Gym:
    """Return the one :class:`Gym` of this process."""
    return _gym


def carb_init(config_str: str = "") -> bool:
    """Do nothing: there is no Carbonite to start."""
    return True


def _vectors(values: Any) -> list[Vec3]:
    return [Vec3.from_buffer(value) for value in np.atleast_1d(values)]


def _records(values: list[Any]) -> np.ndarray:
    names = values[0].dtype.names
    rows = [tuple(getattr(value, name) for name in names) for value in values]
    return np.array(rows, dtype=values[0].dtype)


def dot(a: np.ndarray, b: np.ndarray, /) -> np.ndarray:
    """Return dot products of arrays of vectors."""
    return np.array(
        [x.dot(y) for x, y in zip(_vectors(a), _vectors(b), strict=True)], dtype=np.float32
    )


def cross(a: np.ndarray, b: np.ndarray, /) -> np.ndarray:
    """Return cross products of arrays of vectors."""
    return _records([x.cross(y) for x, y in zip(_vectors(a), _vectors(b), strict=True)])


def _quats(values: Any) -> list[Quat]:
    return [Quat.from_buffer(value) for value in np.atleast_1d(values)]


def rotate(quats: np.ndarray, vectors: np.ndarray, /) -> np.ndarray:
    """Return rotated vectors."""
    return _records([q.rotate(v) for q, v in zip(_quats(quats), _vectors(vectors), strict=True)])


def rotate_inverse(quats: np.ndarray, vectors: np.ndarray, /) -> np.ndarray:
    """Return vectors rotated back."""
    pairs = zip(_quats(quats), _vectors(vectors), strict=True)
    return _records([q.inverse().rotate(v) for q, v in pairs])


def _transforms(values: Any) -> list[Any]:
    return [Transform.from_buffer(value) for value in np.atleast_1d(values)]


def transform(transforms: np.ndarray, points: np.ndarray, /) -> np.ndarray:
    """Return transformed points."""
    pairs = zip(_transforms(transforms), _vectors(points), strict=True)
    return _records([t.transform_point(p) for t, p in pairs])


def transform_inverse(transforms: np.ndarray, points: np.ndarray, /) -> np.ndarray:
    """Return points transformed back."""
    pairs = zip(_transforms(transforms), _vectors(points), strict=True)
    return _records([t.inverse().transform_point(p) for t, p in pairs])


def eulers_to_quats_zyx(eulers: np.ndarray, /) -> np.ndarray:
    """Return quaternions of angles around x, y and z, see ``Quat.from_euler_zyx``."""
    return _records([Quat.from_euler_zyx(v.x, v.y, v.z) for v in _vectors(eulers)])


def quats_to_eulers_zyx(quats: np.ndarray, /) -> np.ndarray:
    """Return angles around x, y and z."""
    return _records([Vec3(*q.to_euler_zyx()) for q in _quats(quats)])
