"""Depth cameras on a robot's bodies: what they see, when, and how late it arrives.

Names follow Isaac Lab's ``TiledCameraCfg`` and ``RayCasterCameraCfg``. Images are drawn by
:mod:`envlab.sim.depth_images`, which needs the package ``warp-lang``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import mujoco
import numpy as np
import torch

from envlab.config import PositiveFloat, PositiveInt
from envlab.envs.entities import SceneEntityCfg
from envlab.envs.managers.sensor import SensorTerm, SensorTermCfg
from envlab.envs.masks import clear
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, SimulationError, did_you_mean
from envlab.sim.host import on_host
from envlab.sim.recording import between_graphs
from envlab.state import State

DataType = Literal["depth", "distance_to_image_plane", "distance_to_camera"]
_AXES = {
    "ros": np.eye(3),
    "opengl": np.diag([1.0, -1.0, -1.0]),
    "world": np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]),
}
"""By convention: from x right, y down, z ahead to the axes that ``rot`` turns."""


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


@dataclass(kw_only=True)
class CameraOffsetCfg:
    """Pose of a camera on its body."""

    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """In the body's frame, in m."""
    rot: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """Orientation (w, x, y, z) in the body's frame."""
    convention: Literal["ros", "opengl", "world"] = "world"
    """The view without a ``rot``: ``world`` along x with z up, ``ros`` along z with
    y down, ``opengl`` along -z with y up."""


@dataclass(kw_only=True)
class DepthCameraSensorCfg(SensorTermCfg):
    """A depth camera on a body, which sees what is fixed to the world, and chosen bodies."""

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ("xpos", "xquat")

    body_name: str = "base"
    """The body that carries it."""
    offset: CameraOffsetCfg = field(default_factory=CameraOffsetCfg)
    """Its pose on the body."""
    pattern_cfg: PinholeCameraPatternCfg = field(default_factory=PinholeCameraPatternCfg)
    """Its pixels and lens."""
    clipping_range: tuple[float, float] = (0.1, 2.0)
    """Anything nearer than the first or farther than the second is not seen, in m."""
    depth_clipping_behavior: Literal["zero", "max"] = "max"
    """Value of a pixel that sees nothing: 0, or the far end of ``clipping_range``."""
    update_period: float = 0.0
    """Time from one image to the next in s, rounded to steps; 0: an image in every step."""
    delay_range: tuple[int, int] = (0, 0)
    """Smallest and largest delay of images, in steps; drawn anew for each episode."""
    history_length: PositiveInt = 1
    """Number of images in an observation, the newest in the last channel."""
    geom_groups: list[int] | None = None
    """Groups of geoms that are seen, 0 to 5; null: all."""
    seen_bodies: list[str] = field(default_factory=list)
    """Bodies seen in addition to what is fixed to the world, by regular expressions that match in
    full; ``[".*"]`` for the whole robot."""

    def build(self, env: VectorEnv) -> DepthCameraSensor:
        return DepthCameraSensor(self, env)


class DepthCameraSensor(SensorTerm):
    """See :class:`DepthCameraSensorCfg`.

    Attributes:
        cfg: The configuration.
        frames: The latest images, float32 ``(num_envs, num_slots, height, width)``: depth along the
            axis in m, inf where nothing is seen.
    """

    STATE = State(per_env=("frames", "_slot", "_count", "_age", "_delay", "_stale"))

    def __init__(self, cfg: DepthCameraSensorCfg, env: VectorEnv) -> None:
        """Prepare to render.

        Raises:
            ConfigurationError: For a camera that cannot make images here.
            SimulationError: If ``warp-lang`` is not installed.
        """
        try:
            from envlab.sim.depth_images import DepthImages, Pinhole
        except ModuleNotFoundError as error:
            raise SimulationError(
                f"A depth camera needs the package {error.name!r}, which is not installed. "
                "Install it with: pip install -c constraints.txt warp-lang"
            ) from error
        model, pattern = env.sim.model, cfg.pattern_cfg
        body = _check(cfg, model)
        self.cfg, self._random, self._device = cfg, env.random, env.device
        self._period = max(1, round(cfg.update_period / env.step_dt))
        num_slots = cfg.history_length + math.ceil(cfg.delay_range[1] / self._period)
        shape = (env.num_envs, num_slots, pattern.height, pattern.width)
        self.frames = torch.full(shape, torch.inf, device=env.device)
        self._slot, self._count, self._age, self._delay = (
            torch.zeros(env.num_envs, dtype=torch.int32, device=env.device) for _ in range(4)
        )
        self._stale = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        self._wanted = self._stale.clone()
        self._back = torch.arange(cfg.history_length - 1, -1, -1, device=env.device)
        self._rows = torch.arange(env.num_envs, device=env.device).unsqueeze(1)
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, np.asarray(cfg.offset.rot) / np.linalg.norm(cfg.offset.rot))
        near, far = cfg.clipping_range
        camera = Pinhole(
            body=body,
            position=np.asarray(cfg.offset.pos),
            rotation=rotation.reshape(3, 3) @ _AXES[cfg.offset.convention],
            height=pattern.height,
            width=pattern.width,
            intrinsics=pattern.intrinsic_matrix(),
            clipping_range=(near, far),
        )
        lengths = np.sqrt(1.0 + (camera.rays() ** 2).sum(axis=2))
        self._lengths = torch.tensor(lengths, dtype=torch.float32, device=env.device)
        self._images = DepthImages(
            camera,
            model,
            _seen_geoms(cfg, model),
            xpos=env.sim.data.xpos,
            xquat=env.sim.data.xquat,
            wanted=self._wanted,
            slot=self._slot,
            frames=self.frames,
            num_threads=env.context.num_threads,
        )

    def update(self, dt: float) -> None:
        self._age += 1
        self._take((self._age >= self._period) | self._stale)

    def reset(self, mask: torch.Tensor) -> None:
        self._stale |= mask
        clear(self._count, mask)
        low, high = self.cfg.delay_range
        if high:
            stream = self._random.stream("camera.delay")
            drawn = stream.uniform(low, high + 1, 1, mask)[:, 0].floor().clamp(max=high).int()
            self._delay.copy_(torch.where(mask, drawn, self._delay))

    def image(self, data_type: DataType = "distance_to_image_plane") -> torch.Tensor:
        """Return the images that have arrived, in m, ``(num_envs, height, width, history)``.

        At the start of an episode, all of them are its first one.
        """
        if not on_host(self._device) or self._stale.any():
            self._take(self._stale)
        late = (self._delay - self._age).clamp(min=0)
        behind = ((late + self._period - 1) // self._period).unsqueeze(1) + self._back
        behind = torch.minimum(behind, (self._count - 1).clamp(min=0).unsqueeze(1))
        slots = (self._slot.unsqueeze(1) - behind) % self.frames.shape[1]
        depth = self.frames[self._rows, slots.long()]
        if data_type == "distance_to_camera":
            depth = depth * self._lengths
        far = self.cfg.clipping_range[1]
        nothing = far if self.cfg.depth_clipping_behavior == "max" else 0.0
        return torch.where(depth <= far, depth, nothing).permute(0, 2, 3, 1)

    def select(self, cfg: SceneEntityCfg) -> DepthCameraSensor:
        return self

    def _take(self, mask: torch.Tensor) -> None:
        """Take an image in the environments of ``mask``."""
        self._wanted.copy_(mask)
        num_slots = self.frames.shape[1]
        self._slot.copy_((self._slot + self._wanted) % num_slots)
        self._count.copy_((self._count + self._wanted).clamp(max=num_slots))
        self._age.masked_fill_(self._wanted, 0)
        self._draw()
        self._stale.fill_(False)

    @between_graphs  # Warp, of which torch knows nothing
    def _draw(self) -> None:
        self._images.draw()


def _check(cfg: DepthCameraSensorCfg, model: mujoco.MjModel) -> int:
    """Return the index of the body that carries the camera."""
    names = [model.body(index).name for index in range(model.nbody)]
    if cfg.body_name not in names:
        raise ConfigurationError(
            f"A depth camera is on the body {cfg.body_name!r}, but the model has the bodies "
            f"{', '.join(names)}.{did_you_mean(cfg.body_name, names)}"
        )
    near, far = cfg.clipping_range
    if not 0.0 <= near < far < math.inf:
        raise ConfigurationError(
            f"A depth camera's clipping_range is {[near, far]}, but must be two distances in m, "
            "the nearer first."
        )
    low, high = cfg.delay_range
    if not 0 <= low <= high:
        raise ConfigurationError(
            f"A depth camera's delay_range is {[low, high]}, but must be the least and the "
            "greatest number of steps, 0 or more."
        )
    if not 0.0 <= cfg.update_period < math.inf:
        raise ConfigurationError(
            f"A depth camera's update_period is {cfg.update_period} s; give 0 or more, and finite."
        )
    return names.index(cfg.body_name)


def _seen_geoms(cfg: DepthCameraSensorCfg, model: mujoco.MjModel) -> list[int]:
    names = [model.body(index).name for index in range(model.nbody)]
    seen = {index for index in range(model.nbody) if model.body_weldid[index] == 0}
    for pattern in cfg.seen_bodies:
        found = {index for index, name in enumerate(names) if re.fullmatch(pattern, name)}
        if not found:
            raise ConfigurationError(
                f"A depth camera is to see the body {pattern!r}, but the model has the bodies "
                f"{', '.join(names)}.{did_you_mean(pattern, names)}"
            )
        seen |= found
    return [
        geom
        for geom in range(model.ngeom)
        if int(model.geom_bodyid[geom]) in seen
        and (cfg.geom_groups is None or int(model.geom_group[geom]) in cfg.geom_groups)
    ]
