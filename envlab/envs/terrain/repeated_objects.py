"""Boxes, cylinders and pyramids in random places: Isaac Lab 2.3's ``MeshRepeated...``.

They are heights, with ramps one cell wide as walls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from envlab.config import NonNegativeFloat, NonNegativeInt, PositiveFloat
from envlab.config import Range as Bounds
from envlab.envs.terrain.rings import PlatformTerrainCfg
from envlab.envs.terrain.tile import Tile, between


@dataclass(kw_only=True)
class RepeatedObjectCfg:
    """The objects of the easiest or of the hardest tile."""

    num_objects: NonNegativeInt
    """How many there are."""
    height: NonNegativeFloat
    """Height of an object, in m; the lower half of boxes and cylinders is below the ground."""
    max_yx_angle: Annotated[float, Bounds(at_least=0, below=90)] = 0.0
    """Objects are tilted up to this much about x and about y."""
    degrees: bool = True
    """Whether the angle is in degrees; else in rad."""

    @property
    def tilt(self) -> float:
        """The maximum tilt, in rad."""
        return math.radians(self.max_yx_angle) if self.degrees else self.max_yx_angle


@dataclass(kw_only=True)
class RoundObjectCfg(RepeatedObjectCfg):
    """Cylinders or pyramids, which have four or five sides."""

    radius: PositiveFloat
    """Distance of their corners from their axis, in m."""


@dataclass(kw_only=True)
class BoxObjectCfg(RepeatedObjectCfg):
    """Boxes."""

    size: Annotated[tuple[float, float], Bounds(above=0, below=math.inf)]
    """Lengths of a box along its x and y, in m."""


@dataclass(frozen=True)
class _Solid:
    """A convex solid: the points that are below all of its faces."""

    normals: np.ndarray
    """Normals of the faces, outwards, ``(num_faces, 3)``."""
    offsets: np.ndarray
    """Each normal's product with the points of its face, ``(num_faces,)``."""

    def top(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the height of its upper side at points in m; where it is not, minus infinity."""
        shape = np.broadcast(x, y).shape
        upper, lower, room = np.full(shape, np.inf), np.full(shape, -np.inf), np.full(shape, np.inf)
        for normal, offset in zip(self.normals, self.offsets, strict=True):
            left = offset - normal[0] * x - normal[1] * y
            if normal[2] > 1e-9:
                upper = np.minimum(upper, left / normal[2])
            elif normal[2] < -1e-9:
                lower = np.maximum(lower, left / normal[2])
            else:
                room = np.minimum(room, left)
        is_there = (room >= -1e-6) & (upper >= lower - 1e-6)
        return np.where(is_there, upper, -np.inf)

    def turned(self, roll: float, pitch: float, yaw: float) -> _Solid:
        """Return the solid turned about its x, y and z, in rad."""
        (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
        about_x = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
        about_y = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
        about_z = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
        return _Solid(self.normals @ (about_z @ about_y @ about_x).T, self.offsets)


def _prism(angles: np.ndarray, distances: np.ndarray, height: float) -> _Solid:
    """Return an upright prism around the origin, with sides in directions at distances."""
    sides = np.column_stack((np.cos(angles), np.sin(angles), np.zeros(len(angles))))
    ends = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    return _Solid(np.vstack((sides, ends)), np.append(distances, [0.5 * height] * 2))


@dataclass(kw_only=True)
class MeshRepeatedObjectsTerrainCfg(PlatformTerrainCfg):
    """Base of objects in random places around the platform."""

    object_params_start: RepeatedObjectCfg
    """The objects of the easiest tile."""
    object_params_end: RepeatedObjectCfg
    """The objects of the hardest tile."""
    abs_height_noise: tuple[float, float] = (0.0, 0.0)
    """Minimum and maximum addition to an object's height, in m."""
    rel_height_noise: tuple[float, float] = (1.0, 1.0)
    """Minimum and maximum factor of an object's height, before the addition."""
    platform_height: float = -1.0
    """Twice the height of the platform, in m; below 0: that of the objects."""

    ObjectCfg: ClassVar[type[RepeatedObjectCfg]] = RepeatedObjectCfg

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        reserved = 1.1 * self.platform_width
        self.require_room(
            tile, reserved, f"platforms of {self.platform_width} m", "Make platform_width smaller."
        )
        number = int(self.between("num_objects", difficulty) + 1e-9)
        height = self.between("height", difficulty)
        tilt = self.between("tilt", difficulty)
        x, y = tile.coordinates()
        middle = 0.5 * np.array(tile.size)
        heights = np.zeros(tile.shape)
        for _ in range(number):
            centre = rng.uniform(0.0, tile.size)
            while (np.abs(centre - middle) <= 0.5 * reserved).all():
                centre = rng.uniform(0.0, tile.size)
            own = height * rng.uniform(*self.rel_height_noise) + rng.uniform(*self.abs_height_noise)
            solid = self.solid(max(own, 0.0), difficulty, rng)
            roll, pitch = rng.uniform(-tilt, tilt, 2)
            turned = solid.turned(roll, pitch, rng.uniform(-np.pi, np.pi))
            if own > 0.0:
                np.maximum(heights, turned.top(x - centre[0], y - centre[1]), out=heights)
        top = 0.5 * (self.platform_height if self.platform_height >= 0.0 else height)
        heights[tile.inside(self.platform_width, self.platform_width)] = top
        return tile.flat_edged(heights), top

    def solid(self, height: float, difficulty: float, rng: np.random.Generator) -> _Solid:
        """Return an object of a height in m, upright at the origin."""
        raise NotImplementedError

    def between(self, name: str, difficulty: float) -> float:
        """Return the value of the objects' field, from the easiest to the hardest tile."""
        start, end = self.object_params_start, self.object_params_end
        return between((getattr(start, name), getattr(end, name)), difficulty)


@dataclass(kw_only=True)
class MeshRepeatedBoxesTerrainCfg(MeshRepeatedObjectsTerrainCfg):
    """Boxes in random places and directions around the platform."""

    object_params_start: BoxObjectCfg
    """The boxes of the easiest tile."""
    object_params_end: BoxObjectCfg
    """The boxes of the hardest tile."""

    ObjectCfg: ClassVar[type[RepeatedObjectCfg]] = BoxObjectCfg

    def solid(self, height: float, difficulty: float, rng: np.random.Generator) -> _Solid:
        start, end = np.array(self.object_params_start.size), np.array(self.object_params_end.size)
        half = 0.5 * (start + difficulty * (end - start))
        return _prism(0.5 * np.pi * np.arange(4), np.tile(half, 2), height)


@dataclass(kw_only=True)
class MeshRepeatedCylindersTerrainCfg(MeshRepeatedObjectsTerrainCfg):
    """Cylinders of four or five sides in random places around the platform."""

    object_params_start: RoundObjectCfg
    """The cylinders of the easiest tile."""
    object_params_end: RoundObjectCfg
    """The cylinders of the hardest tile."""

    ObjectCfg: ClassVar[type[RepeatedObjectCfg]] = RoundObjectCfg

    def solid(self, height: float, difficulty: float, rng: np.random.Generator) -> _Solid:
        return _prism(*self.sides(difficulty, rng), height)

    def sides(self, difficulty: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return the directions of the sides in rad and their distances from the axis in m."""
        number = int(rng.integers(4, 6))
        radius = self.between("radius", difficulty)
        angles = 2.0 * np.pi * (np.arange(number) + 0.5) / number
        return angles, np.full(number, radius * math.cos(math.pi / number))


@dataclass(kw_only=True)
class MeshRepeatedPyramidsTerrainCfg(MeshRepeatedCylindersTerrainCfg):
    """Pyramids of four or five sides in random places around the platform."""

    def solid(self, height: float, difficulty: float, rng: np.random.Generator) -> _Solid:
        angles, distances = self.sides(difficulty, rng)
        sides = np.column_stack((height * np.cos(angles), height * np.sin(angles), distances))
        return _Solid(np.vstack((sides, [0.0, 0.0, -1.0])), np.append(height * distances, 0.0))
