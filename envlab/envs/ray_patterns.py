"""Patterns of rays in a sensor's frame: where they start, and where to; Isaac Lab's and mjlab's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np
import torch

from envlab.config import PositiveFloat, PositiveInt
from envlab.errors import ConfigurationError

Rays = tuple[torch.Tensor, torch.Tensor]
"""Starting points in m and directions of length 1, float32 ``(num_rays, 3)`` each."""
_DOWN = (0.0, 0.0, -1.0)


@dataclass(kw_only=True)
class GridPatternCfg:
    """Points on a grid around the robot; x varies fastest, from back to front."""

    resolution: float = 0.1
    """Distance of two points, in m."""
    size: tuple[float, float] = (1.6, 1.0)
    """Lengths of the grid along x and y, in m."""
    direction: tuple[float, float, float] = _DOWN
    """Direction of the rays."""

    def points(self) -> torch.Tensor:
        """Return the points' x and y in m, float32 ``(2, num_points)``.

        Raises:
            ConfigurationError: For a grid without points.
        """
        if not self.resolution > 0.0 or min(self.size) < 0.0:
            raise ConfigurationError(
                f"A height scan has the size {list(self.size)} m and the resolution "
                f"{self.resolution} m; give a size of 0 or more and a resolution above 0."
            )
        x, y = (
            torch.arange(int(length / self.resolution + 1e-6) + 1) * self.resolution - 0.5 * length
            for length in self.size
        )
        return torch.stack(torch.meshgrid(x, y, indexing="xy")).flatten(1)

    def rays(self) -> Rays:
        """Return the rays, which are parallel."""
        return _parallel(self.points().T, self.direction)


@dataclass(kw_only=True)
class RingCfg:
    """A circle of points around the sensor."""

    radius: PositiveFloat
    """In m."""
    num_samples: PositiveInt
    """Number of points, the first on x, then counterclockwise."""


@dataclass(kw_only=True)
class RingPatternCfg:
    """Concentric circles of parallel rays, to feel the ground around a foot; mjlab's pattern."""

    rings: list[RingCfg] = field(default_factory=lambda: [RingCfg(radius=0.1, num_samples=8)])
    """The circles."""
    include_center: bool = True
    """Whether the first ray starts in their centre."""
    direction: tuple[float, float, float] = _DOWN
    """Direction of the rays."""

    def rays(self) -> Rays:
        """Return the rays, ring by ring."""
        points = [(0.0, 0.0)] if self.include_center else []
        for ring in self.rings:
            for index in range(ring.num_samples):
                angle = 2.0 * math.pi * index / ring.num_samples
                points.append((ring.radius * math.cos(angle), ring.radius * math.sin(angle)))
        if not points:
            raise ConfigurationError("A ring pattern has no rings. Add a RingCfg to its rings.")
        return _parallel(torch.tensor(points), self.direction)


@dataclass(kw_only=True)
class LidarPatternCfg:
    """Rays of a lidar: some channels one above the other, which turn about z."""

    channels: PositiveInt = 16
    """Number of rays one above the other."""
    vertical_fov_range: tuple[float, float] = (-15.0, 15.0)
    """Angles above the horizontal of the lowest and the highest channel, in degrees."""
    horizontal_fov_range: tuple[float, float] = (0.0, 360.0)
    """Angles about z, from x, of the first and the last ray, in degrees; a full circle does not
    repeat its first ray."""
    horizontal_res: PositiveFloat = 1.0
    """Largest angle from a ray to the next, in degrees."""

    def rays(self) -> Rays:
        """Return the rays, channel by channel from the lowest."""
        first, last = self.horizontal_fov_range
        num = math.ceil((last - first) / self.horizontal_res - 1e-9) + 1
        if num < 1 or self.vertical_fov_range[0] > self.vertical_fov_range[1]:
            raise ConfigurationError(
                f"A lidar has the vertical_fov_range {list(self.vertical_fov_range)} and the "
                f"horizontal_fov_range {[first, last]}, but each must be two angles in degrees, "
                "the smaller first."
            )
        around = torch.linspace(first, last, num, dtype=torch.float64).deg2rad()
        if abs(last - first - 360.0) < 1e-6:
            around = around[:-1]
        up = torch.linspace(*self.vertical_fov_range, self.channels, dtype=torch.float64).deg2rad()
        up, around = torch.meshgrid(up, around, indexing="ij")
        directions = (up.cos() * around.cos(), up.cos() * around.sin(), up.sin())
        found = torch.stack(directions, dim=-1).flatten(0, 1).float()
        return torch.zeros_like(found), found


def _parallel(points: torch.Tensor, direction: Sequence[float]) -> Rays:
    """Return rays from points ``(num_rays, 2)`` in the plane of x and y, all in one direction."""
    length = math.sqrt(sum(part * part for part in direction))
    if not 0.0 < length < math.inf:
        raise ConfigurationError(
            f"A pattern's rays have the direction {list(direction)}, but need a finite direction "
            "other than zero."
        )
    origins = torch.cat((points, torch.zeros(len(points), 1)), dim=1)
    unit = torch.tensor([part / length for part in direction], dtype=torch.float32)
    return origins, unit.expand(len(points), 3)


@dataclass(kw_only=True)
class PinholeCameraPatternCfg:
    """Pixels and lens of a camera, with Isaac Lab's names."""

    width: PositiveInt = 87
    """Pixels from left to right."""
    height: PositiveInt = 58
    """Pixels from top to bottom."""
    focal_length: PositiveFloat = 24.0
    """In cm; only its ratios to the apertures matter."""
    horizontal_aperture: PositiveFloat = 20.955
    """Width of the image behind the lens, in cm."""
    vertical_aperture: PositiveFloat | None = None
    """Its height, in cm; null: pixels are square."""
    horizontal_aperture_offset: float = 0.0
    """Distance of the axis to the left of the image's centre, in cm."""
    vertical_aperture_offset: float = 0.0
    """Its distance above the centre, in cm."""

    @classmethod
    def from_intrinsic_matrix(
        cls,
        intrinsic_matrix: Sequence[float],
        width: int,
        height: int,
        focal_length: float = 24.0,
    ) -> PinholeCameraPatternCfg:
        """Return the camera of a matrix ``(fx, 0, cx, 0, fy, cy, 0, 0, 1)``, in pixels.

        Raises:
            ConfigurationError: If the matrix is not of this form.
        """
        values = np.asarray(intrinsic_matrix, dtype=float).ravel()
        fits = values.size == 9 and np.isfinite(values).all()
        if not fits or values[[1, 3, 6, 7]].any() or values[8] != 1.0 or min(values[[0, 4]]) <= 0:
            raise ConfigurationError(
                f"The intrinsic matrix is {values.tolist()}, but must be [fx, 0, cx, 0, fy, cy, "
                "0, 0, 1] in pixels, row by row, with fx and fy above 0."
            )
        per_x, per_y = focal_length / values[0], focal_length / values[4]
        return cls(
            width=width,
            height=height,
            focal_length=focal_length,
            horizontal_aperture=width * per_x,
            vertical_aperture=height * per_y,
            horizontal_aperture_offset=(values[2] - 0.5 * width) * -per_x,
            vertical_aperture_offset=(values[5] - 0.5 * height) * -per_y,
        )

    def intrinsic_matrix(self) -> np.ndarray:
        """Return focal lengths and principal point in pixels, ``(3, 3)``."""
        fx = self.width * self.focal_length / self.horizontal_aperture
        fy = fx
        if self.vertical_aperture is not None:
            fy = self.height * self.focal_length / self.vertical_aperture
        cx = 0.5 * self.width - self.horizontal_aperture_offset * fx / self.focal_length
        cy = 0.5 * self.height - self.vertical_aperture_offset * fy / self.focal_length
        return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])

    def write(self, camera: mujoco.MjsCamera) -> None:
        """Give a camera these pixels and this lens."""
        lens = self.intrinsic_matrix()
        camera.resolution = (self.width, self.height)
        # Lengths of the sensor are free: here a pixel is as wide as it is high.
        camera.sensor_size = (self.width * 1e-3, self.height * 1e-3)
        camera.focal_length = (lens[0, 0] * 1e-3, lens[1, 1] * 1e-3)
        camera.principal_length = (
            (0.5 * self.width - lens[0, 2]) * 1e-3,
            (0.5 * self.height - lens[1, 2]) * 1e-3,
        )

    def rays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return where rays start and their directions, of a camera that looks along x, z up.

        Float32 ``(height * width, 3)`` each, row by row from the top left, of length 1.
        """
        lens = self.intrinsic_matrix()
        x = (np.arange(self.width) + 0.5 - lens[0, 2]) / lens[0, 0]
        y = (np.arange(self.height) + 0.5 - lens[1, 2]) / lens[1, 1]
        down, right = (part.ravel() for part in np.meshgrid(y, x, indexing="ij"))
        rays = np.stack((np.ones_like(right), -right, -down), axis=1)
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        directions = torch.tensor(rays, dtype=torch.float32)
        return torch.zeros_like(directions), directions
