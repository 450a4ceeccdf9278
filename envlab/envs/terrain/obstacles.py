"""Obstacles on a tile: courses of parkour, and Isaac Lab 2.3's ``MeshRepeated...``.

Courses are across the way from the centre to the ends along x. Kinds after Cheng et al. 2023,
"Extreme Parkour with Legged Robots" (arXiv 2309.14341), with courses of gaps (0.1 to 0.8 m wide by
difficulty), of hurdles (0.1 to 0.4 m high) and of steps (0.1 to 0.45 m; legged_gym/utils/terrain.py
of chengxuxin/extreme-parkour). The hardest sizes were passed by the robots of Zhuang et al. 2023,
"Robot Parkour Learning" (arXiv 2309.05665, figure 1): gaps of 0.6 m and obstacles of 0.4 m. Their
walls are vertical; ours are ramps one cell wide. Repeated objects, which are boxes, cylinders and
pyramids in random places, are heights too, with the same ramps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from envlab.config import NonNegativeFloat, NonNegativeInt, PositiveFloat
from envlab.config import Range as Bounds
from envlab.envs.terrain.rings import PlatformTerrainCfg
from envlab.envs.terrain.sub_terrains import Range, SubTerrainCfg
from envlab.envs.terrain.tile import Tile, between


@dataclass(kw_only=True)
class ParkourTerrainCfg(SubTerrainCfg):
    """A kind of course: the same obstacles on both sides of the start."""

    num_obstacles: int = 2
    """Obstacles on the way from the start to an end of the tile."""
    platform_width: float = 1.6
    """Length of the level ground around the start along x, in m."""
    run_up: float = 0.6
    """Level ground at the end of the tile, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        room = 0.5 * (tile.size[0] - self.platform_width) - self.run_up
        length = self.length(difficulty)
        self.require(
            self.num_obstacles > 0 and length <= room / max(self.num_obstacles, 1) - 0.2,
            f"{self.num_obstacles} obstacles of {length:.3g} m do not fit into {room:.3g} m, the "
            "way from the platform to the end of a tile",
            "Make platform_width, num_obstacles or the obstacles smaller.",
        )
        x, y = tile.coordinates()
        distance = np.abs(x - 0.5 * tile.size[0]) - 0.5 * self.platform_width
        pitch = room / self.num_obstacles
        heights = np.zeros(tile.shape)
        for obstacle in range(self.num_obstacles):
            # One cell of tolerance, so that courses differ.
            start = pitch * obstacle + rng.uniform(0.1, pitch - length)
            along = distance - start
            profile = self.profile(along, length, difficulty)
            heights += np.broadcast_to(profile, tile.shape)
        inner = (y > 0.05) & (y < tile.size[1] - 0.05)
        return tile.flat_edged(np.where(inner, heights, 0.0)), 0.0

    def length(self, difficulty: float) -> float:
        """Return the length of an obstacle along x, in m."""
        raise NotImplementedError

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        """Return an obstacle's heights in m at distances from its start, of the shape of these."""
        raise NotImplementedError


@dataclass(kw_only=True)
class ParkourGapsTerrainCfg(ParkourTerrainCfg):
    """Gaps to leap over."""

    gap_width_range: Range = (0.1, 0.6)
    """Width of a gap's level bottom, in m; the ramps on both sides add up to a cell each."""
    gap_depth: float = 0.6
    """Depth of a gap, in m."""

    def length(self, difficulty: float) -> float:
        return between(self.gap_width_range, difficulty)

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        return np.where((along >= 0.0) & (along <= length + 1e-9), -self.gap_depth, 0.0)


@dataclass(kw_only=True)
class ParkourHurdlesTerrainCfg(ParkourTerrainCfg):
    """Hurdles to jump over."""

    hurdle_height_range: Range = (0.1, 0.4)
    """Height of a hurdle, in m."""
    thickness: float = 0.2
    """Length of its top along x, in m."""

    def length(self, difficulty: float) -> float:
        return self.thickness

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        height = between(self.hurdle_height_range, difficulty)
        return np.where((along >= 0.0) & (along <= length + 1e-9), height, 0.0)


@dataclass(kw_only=True)
class ParkourStepsTerrainCfg(ParkourTerrainCfg):
    """Blocks of two steps to climb up and jump down."""

    step_height_range: Range = (0.1, 0.4)
    """Height of a block, which is reached by two steps, in m."""
    block_length: float = 0.9
    """Length of a block along x, in m: a third each for the first step, the top and the last."""

    def length(self, difficulty: float) -> float:
        return self.block_length

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        height = between(self.step_height_range, difficulty)
        third = length / 3.0
        inside = (along >= 0.0) & (along <= length + 1e-9)
        top = (along >= third) & (along <= 2.0 * third)
        return np.where(inside, np.where(top, height, 0.5 * height), 0.0)


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
