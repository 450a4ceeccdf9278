"""Small values of ``isaacgym.gymapi``: vectors, quaternions (x, y, z, w), and transforms.

Attributes are copied and converted when they are set, as C++ bindings do: ``pose.p = v`` keeps
no reference to ``v``, and ``props.friction = torch.tensor([0.5])`` stores a float, of 32 bits.
"""

from __future__ import annotations

import copy
import ctypes
import enum
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np


def _converted(annotation: str, value: Any) -> Any:
    """Return ``value`` converted by the field's annotation; records are copied."""
    if annotation == "float":
        # Tasks depend on it: tron1 has room for ceil(0.02 / dt) actions, 5 where dt is a float32.
        return ctypes.c_float(to_float(value)).value
    if annotation == "int":
        return value if isinstance(value, enum.IntEnum) else int(value)
    if annotation == "bool":
        return bool(value)
    return copy.copy(value) if isinstance(value, Record) else value


def to_float(value: Any) -> float:
    """Return a number, or the only one of an array, as C++ bindings do, unlike numpy 2.4.

    Raises:
        ValueError: If an array has several.
    """
    return float(value.item() if hasattr(value, "item") else value)


class Record:
    """Base of classes with typed attributes only: unknown names are errors."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        for kind in type(self).__mro__:
            if name in getattr(kind, "__annotations__", ()):
                value = _converted(kind.__annotations__[name], value)
                break
        object.__setattr__(self, name, value)

    def __copy__(self) -> Any:
        return copy.deepcopy(self)


@dataclass(slots=True)
class Vec2(Record):
    """Two numbers."""

    dtype: ClassVar[np.dtype] = np.dtype([("x", "f4"), ("y", "f4")])
    x: float = 0.0
    y: float = 0.0

    @staticmethod
    def from_buffer(buffer: Any) -> Vec2:
        """Return the first two numbers of a buffer."""
        return Vec2(*_numbers(buffer)[:2])

    def __add__(self, other: Vec2) -> Vec2:
        return Vec2(self.x + other.x, self.y + other.y)

    def __sub__(self, other: Vec2) -> Vec2:
        return Vec2(self.x - other.x, self.y - other.y)

    def __mul__(self, factor: float) -> Vec2:
        return Vec2(self.x * factor, self.y * factor)

    def __truediv__(self, divisor: float) -> Vec2:
        return Vec2(self.x / divisor, self.y / divisor)

    def __neg__(self) -> Vec2:
        return Vec2(-self.x, -self.y)


@dataclass(slots=True)
class Vec3(Record):
    """Three numbers."""

    dtype: ClassVar[np.dtype] = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4")])
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0

    @staticmethod
    def from_buffer(buffer: Any) -> Vec3:
        """Return the first three numbers of a buffer."""
        return Vec3(*_numbers(buffer)[:3])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array([self.x, self.y, self.z], dtype=dtype or np.float64)

    def __add__(self, other: Vec3) -> Vec3:
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec3) -> Vec3:
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __mul__(self, factor: float) -> Vec3:
        return Vec3(self.x * factor, self.y * factor, self.z * factor)

    def __truediv__(self, divisor: float) -> Vec3:
        return Vec3(self.x / divisor, self.y / divisor, self.z / divisor)

    def __neg__(self) -> Vec3:
        return Vec3(-self.x, -self.y, -self.z)

    def cross(self, other: Vec3) -> Vec3:
        """Return the cross product."""
        return Vec3(*np.cross(np.asarray(self), np.asarray(other)))

    def dot(self, other: Vec3) -> float:
        """Return the dot product."""
        return self.x * other.x + self.y * other.y + self.z * other.z

    def length_sq(self) -> float:
        """Return the squared length."""
        return self.dot(self)

    def length(self) -> float:
        """Return the length."""
        return math.sqrt(self.length_sq())

    def normalize(self) -> Vec3:
        """Return this direction with length 1; the null vector is unchanged."""
        return self / (self.length() or 1.0)


@dataclass(slots=True)
class Quat(Record):
    """A rotation as a unit quaternion, with its real part last."""

    dtype: ClassVar[np.dtype] = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("w", "f4")])
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    w: float = 1.0

    @staticmethod
    def from_buffer(buffer: Any) -> Quat:
        """Return the first four numbers of a buffer."""
        return Quat(*_numbers(buffer)[:4])

    @staticmethod
    def from_axis_angle(axis: Vec3, angle: float) -> Quat:
        """Return the rotation by ``angle`` radians around ``axis``."""
        direction = axis.normalize() * math.sin(angle / 2)
        return Quat(direction.x, direction.y, direction.z, math.cos(angle / 2))

    @staticmethod
    def from_euler_zyx(x: float, y: float, z: float) -> Quat:
        """Return the rotation by ``x`` around x, then ``y`` around y, then ``z`` around z."""
        turns = zip((Vec3(1, 0, 0), Vec3(0, 1, 0), Vec3(0, 0, 1)), (x, y, z), strict=True)
        first, second, third = (Quat.from_axis_angle(axis, angle) for axis, angle in turns)
        return third * second * first

    def to_euler_zyx(self) -> tuple[float, float, float]:
        """Return the angles from which :meth:`from_euler_zyx` makes this rotation."""
        x, y, z, w = self.x, self.y, self.z, self.w
        sine = max(-1.0, min(1.0, 2 * (w * y - z * x)))
        return (
            math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
            math.asin(sine),
            math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
        )

    @property
    def wxyz(self) -> np.ndarray:
        """The quaternion as MuJoCo writes it, with its real part first."""
        return np.array([self.w, self.x, self.y, self.z])

    def inverse(self) -> Quat:
        """Return the opposite rotation."""
        return Quat(-self.x, -self.y, -self.z, self.w)

    def normalize(self) -> Quat:
        """Return the quaternion with length 1."""
        length = float(np.linalg.norm(self.wxyz))
        return Quat(self.x / length, self.y / length, self.z / length, self.w / length)

    def rotate(self, vector: Vec3) -> Vec3:
        """Return the rotated vector."""
        axis = Vec3(self.x, self.y, self.z)
        twice = axis.cross(vector) * 2.0
        return vector + twice * self.w + axis.cross(twice)

    def __mul__(self, other: Quat) -> Quat:
        a, b = Vec3(self.x, self.y, self.z), Vec3(other.x, other.y, other.z)
        v = b * self.w + a * other.w + a.cross(b)
        return Quat(v.x, v.y, v.z, self.w * other.w - a.dot(b))


@dataclass(slots=True)
class Transform(Record):
    """A rotation ``r`` followed by a translation ``p``."""

    dtype: ClassVar[np.dtype] = np.dtype([("p", Vec3.dtype), ("r", Quat.dtype)])
    p: Vec3 = field(default_factory=Vec3)
    r: Quat = field(default_factory=Quat)

    def __setattr__(self, name: str, value: Any) -> None:
        if value is None:  # gymapi.Transform(point, r=None)
            value = Quat() if name == "r" else Vec3()
        Record.__setattr__(self, name, value)

    @staticmethod
    def from_buffer(buffer: Any) -> Transform:
        """Return the position and rotation in the first seven numbers of a buffer."""
        numbers = _numbers(buffer)
        return Transform(Vec3(*numbers[:3]), Quat(*numbers[3:7]))

    def inverse(self) -> Transform:
        """Return the transform that undoes this one."""
        inverse = self.r.inverse()
        return Transform(-inverse.rotate(self.p), inverse)

    def transform_vector(self, vector: Vec3) -> Vec3:
        """Return the rotated vector."""
        return self.r.rotate(vector)

    def transform_point(self, point: Vec3) -> Vec3:
        """Return the rotated and translated point."""
        return self.r.rotate(point) + self.p

    def transform_vectors(self, vectors: np.ndarray) -> np.ndarray:
        """Return rotated vectors, as an array of :attr:`Vec3.dtype`."""
        return _each(self.transform_vector, vectors)

    def transform_points(self, points: np.ndarray) -> np.ndarray:
        """Return rotated and translated points, as an array of :attr:`Vec3.dtype`."""
        return _each(self.transform_point, points)

    def __mul__(self, other: Transform) -> Transform:
        return Transform(self.transform_point(other.p), self.r * other.r)


@dataclass(slots=True)
class Velocity(Record):
    """Linear (m/s) and angular (rad/s) velocity."""

    dtype: ClassVar[np.dtype] = np.dtype([("linear", Vec3.dtype), ("angular", Vec3.dtype)])
    linear: Vec3 = field(default_factory=Vec3)
    angular: Vec3 = field(default_factory=Vec3)

    @staticmethod
    def from_buffer(buffer: Any) -> Velocity:
        """Return the velocities in the first six numbers of a buffer."""
        numbers = _numbers(buffer)
        return Velocity(Vec3(*numbers[:3]), Vec3(*numbers[3:6]))


@dataclass(slots=True)
class Mat33(Record):
    """Rows of a 3x3 matrix."""

    x: Vec3 = field(default_factory=Vec3)
    y: Vec3 = field(default_factory=Vec3)
    z: Vec3 = field(default_factory=Vec3)


@dataclass(slots=True)
class Mat44(Record):
    """Rows of a 4x4 matrix."""

    x: Quat = field(default_factory=Quat)
    y: Quat = field(default_factory=Quat)
    z: Quat = field(default_factory=Quat)
    w: Quat = field(default_factory=Quat)


@dataclass(slots=True)
class Int2(Record):
    """Two whole numbers."""

    dtype: ClassVar[np.dtype] = np.dtype([("x", "i4"), ("y", "i4")])
    x: int = 0
    y: int = 0


@dataclass(slots=True)
class Int3(Record):
    """Three whole numbers."""

    dtype: ClassVar[np.dtype] = np.dtype([("x", "i4"), ("y", "i4"), ("z", "i4")])
    x: int = 0
    y: int = 0
    z: int = 0


@dataclass(slots=True)
class DofState(Record):
    """Position and velocity of a degree of freedom."""

    dtype: ClassVar[np.dtype] = np.dtype([("pos", "f4"), ("vel", "f4")])
    pos: float = 0.0
    vel: float = 0.0


@dataclass(slots=True)
class DofFrame(Record):
    """Origin and axis of a degree of freedom."""

    dtype: ClassVar[np.dtype] = np.dtype([("origin", Vec3.dtype), ("axis", Vec3.dtype)])
    origin: Vec3 = field(default_factory=Vec3)
    axis: Vec3 = field(default_factory=Vec3)

    @staticmethod
    def from_buffer(buffer: Any) -> DofFrame:
        """Return the origin and axis in the first six numbers of a buffer."""
        numbers = _numbers(buffer)
        return DofFrame(Vec3(*numbers[:3]), Vec3(*numbers[3:6]))


@dataclass(slots=True)
class RigidBodyState(Record):
    """Pose and velocity of a body."""

    dtype: ClassVar[np.dtype] = np.dtype([("pose", Transform.dtype), ("vel", Velocity.dtype)])
    pose: Transform = field(default_factory=Transform)
    vel: Velocity = field(default_factory=Velocity)


@dataclass(slots=True)
class ParticleState(Record):
    """A particle of a soft body."""

    dtype: ClassVar[np.dtype] = np.dtype(
        [("position", Quat.dtype), ("velocity", Vec3.dtype), ("normal", Quat.dtype)]
    )
    position: Quat = field(default_factory=Quat)
    velocity: Vec3 = field(default_factory=Vec3)
    normal: Quat = field(default_factory=Quat)


def _numbers(buffer: Any) -> list[float]:
    """Return the numbers of a plain or structured array, in order."""
    array = np.asarray(buffer)
    if array.dtype.names:
        array = array.reshape(-1)[:1].copy().view("f4")
    return [float(number) for number in array.reshape(-1)]


def _each(function: Any, vectors: np.ndarray) -> np.ndarray:
    rows = [function(Vec3.from_buffer(vector)) for vector in np.atleast_1d(vectors)]
    return np.array([(row.x, row.y, row.z) for row in rows], dtype=Vec3.dtype)
