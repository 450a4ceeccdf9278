"""Rays from frames on a robot, against the ground and whatever moves: ``RayCastSensorCfg``.

For the heights of the ground below a robot alone, :mod:`envlab.envs.ray_caster` is faster. A camera
whose pixels are rays, in place of a picture that is drawn, is ``RayCasterCameraCfg``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from envlab.config import PositiveFloat
from envlab.envs import math
from envlab.envs.camera import CameraOffsetCfg
from envlab.envs.entities import as_index, columns
from envlab.envs.managers.sensor import InstantSensor, PeriodicSensorCfg
from envlab.envs.ray_patterns import (
    GridPatternCfg,
    LidarPatternCfg,
    PinholeCameraPatternCfg,
    RingPatternCfg,
)
from envlab.envs.spec_sensors import OffsetCfg, matches
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


AnyPatternCfg = GridPatternCfg | RingPatternCfg | LidarPatternCfg | PinholeCameraPatternCfg


@dataclass(kw_only=True)
class RayCastSensorCfg(PeriodicSensorCfg):
    """Rays in a pattern, from each of some bodies or sites; mjlab's name."""

    DATA_FIELDS: ClassVar[tuple[str, ...]] = ("xpos", "xquat")

    body_names: str | list[str] = ""
    """Bodies whose frames carry the pattern, by regular expressions that match in full."""
    site_names: str | list[str] = ""
    """Sites that carry it, in addition."""
    offset: OffsetCfg = field(default_factory=OffsetCfg)
    """Pose of the pattern in each frame, once aligned."""
    pattern_cfg: AnyPatternCfg = field(default_factory=GridPatternCfg)
    """The rays. A camera looks along x, with z up."""
    ray_alignment: Literal["base", "yaw", "world"] = "base"
    """Whether the pattern turns with its frame, with the frame's yaw alone, or not at all."""
    max_distance: PositiveFloat = 100.0
    """Anything farther is not hit, in m."""
    geom_groups: list[int] | None = None
    """Groups of geoms that are hit, 0 to 5, whether they move or not; null: all."""
    exclude_own_body: bool = True
    """Whether rays pass through the geoms of the body that carries their frame."""
    normals: bool = False
    """Whether the surfaces' normals are also measured."""

    def build(self, env: VectorEnv) -> RayCastSensor:
        return RayCastSensor(self, env)


class RayCastSensor(InstantSensor):
    """See :class:`RayCastSensorCfg`. Rays are those of the first frame, then of the next.

    Attributes:
        frame_names: Names of the bodies, then of the sites.
        num_rays: Number of rays of all frames.
    """

    cfg: RayCastSensorCfg

    def __init__(self, cfg: RayCastSensorCfg, env: VectorEnv) -> None:
        """Look up the frames.

        Raises:
            ConfigurationError: If there are none, or the pattern has no rays.
        """
        super().__init__(cfg, env)
        model, device, self.cfg = env.sim.model, env.device, cfg
        self._farthest = cfg.max_distance
        bodies = _chosen("body", cfg.body_names, model.nbody, model.body)
        sites = _chosen("site", cfg.site_names, model.nsite, model.site)
        if not bodies and not sites:
            raise ConfigurationError(
                "A ray sensor has no frame. Name bodies in its body_names, or sites in site_names."
            )
        self.frame_names = [model.body(one).name for one in bodies]
        self.frame_names += [model.site(one).name for one in sites]
        ids = bodies + [int(model.site_bodyid[one]) for one in sites]
        self._ids = as_index(ids, model.nbody, device)
        pos = [[0.0] * 3] * len(bodies) + [model.site_pos[one].tolist() for one in sites]
        quat = [[1.0, 0, 0, 0]] * len(bodies) + [model.site_quat[one].tolist() for one in sites]
        self._on_body = (torch.tensor(pos, device=device), torch.tensor(quat, device=device))
        self._has_sites = bool(sites)
        origins, directions = cfg.pattern_cfg.rays()
        turn = math.normalize(torch.tensor(cfg.offset.rot).expand(len(origins), 4))
        origins = torch.tensor(cfg.offset.pos) + math.quat_apply(turn, origins)
        self._origins = origins.to(device)
        self._directions = math.quat_apply(turn, directions).to(device)
        self.num_rays = len(ids) * len(origins)
        excluded = ids if cfg.exclude_own_body else [-1] * len(ids)
        self._excluded = torch.tensor(excluded, dtype=torch.int32, device=device).repeat_interleave(
            len(origins)
        )

    @property
    def pos_w(self) -> torch.Tensor:
        """Positions of the frames in the world, in m, ``(num_envs, num_frames, 3)``."""
        return self.measured()["pos"]

    @property
    def quat_w(self) -> torch.Tensor:
        """Orientations of the frames in the world, (w, x, y, z), ``(num_envs, num_frames, 4)``."""
        return self.measured()["quat"]

    @property
    def distances(self) -> torch.Tensor:
        """Lengths to what rays hit, in m, else ``max_distance``; ``(num_envs, num_rays)``."""
        return self.measured()["distances"]

    @property
    def is_hit(self) -> torch.Tensor:
        """Whether rays hit anything, bool ``(num_envs, num_rays)``."""
        return self.measured()["is_hit"]

    @property
    def ray_hits_w(self) -> torch.Tensor:
        """Where they hit, in m in the world, else inf, ``(num_envs, num_rays, 3)``."""
        return self.measured()["points"]

    @property
    def normals_w(self) -> torch.Tensor:
        """Unit normals of what they hit, world frame, else 0, ``(num_envs, num_rays, 3)``."""
        if not self.cfg.normals:
            raise ConfigurationError(
                "A term asks a ray sensor for normals, which it does not measure. Set its "
                "normals=true."
            )
        return self.measured()["normals"]

    def clearances(self, offset: float = 0.0) -> torch.Tensor:
        """Return how much higher frames are than what their rays hit, less ``offset``, in m.

        Returns:
            ``(num_envs, num_rays)``; -inf where a ray hits nothing, as in Isaac Lab.
        """
        hits = self.ray_hits_w[..., 2].unflatten(1, (len(self.frame_names), -1))
        return (self.pos_w[..., 2:] - offset - hits).flatten(1)

    def _frames(self) -> tuple[torch.Tensor, torch.Tensor]:
        data = self._env.sim.data
        pos, quat = columns(data.xpos, self._ids), columns(data.xquat, self._ids)
        if not self._has_sites:
            return pos, quat
        shape = (self._env.num_envs, -1, -1)
        on_body, turned = (one.expand(shape) for one in self._on_body)
        return math.combine_frame_transforms(pos, quat, on_body, turned)

    def present(self) -> dict[str, torch.Tensor]:
        pos, quat = self._frames()
        turn = self._alignment(quat.unsqueeze(2))
        shape = (self._env.num_envs, len(self.frame_names), -1, -1)
        origins = (pos.unsqueeze(2) + turn(self._origins.expand(shape))).flatten(1, 2)
        directions = turn(self._directions.expand(shape)).flatten(1, 2)
        normals = torch.zeros_like(directions)
        distance, _ = self._env.sim.rays(
            origins.contiguous(),
            directions.contiguous(),
            geom_groups=self.cfg.geom_groups,
            exclude_body=self._excluded,
            normals=normals if self.cfg.normals else None,
        )
        farthest = self._farthest
        is_hit = (distance >= 0.0) & (distance <= farthest)
        seen = is_hit.unsqueeze(2)
        points = torch.where(seen, origins + distance.unsqueeze(2) * directions, torch.inf)
        return {
            "pos": pos,
            "quat": quat,
            "distances": torch.where(is_hit, distance, farthest),
            "is_hit": is_hit,
            "points": points,
            "normals": torch.where(seen, normals, 0.0),
        }

    def _alignment(self, quat: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return what turns vectors ``(num_envs, num_frames, num_rays, 3)`` into the world.

        Args:
            quat: Orientations of the frames, ``(num_envs, num_frames, 1, 4)``.
        """
        if self.cfg.ray_alignment == "world":
            return lambda vectors: vectors
        if self.cfg.ray_alignment == "base":
            return lambda vectors: math.quat_apply(quat, vectors)
        cos, sin = math.heading(quat)

        def about_z(vectors: torch.Tensor) -> torch.Tensor:
            x, y, z = vectors.unbind(3)
            return torch.stack((cos * x - sin * y, sin * x + cos * y, z), dim=3)

        return about_z


@dataclass(kw_only=True)
class TerrainHeightSensorCfg(RayCastSensorCfg):
    """Heights of frames above what is below them, from rays that point down; mjlab's name."""

    normals: bool = True
    """Whether rays that hit the underside of something, from within it, measure 0."""
    reduction: Literal["min", "max", "mean", "none"] = "min"
    """What is made of a frame's heights at its rays; ``none``: all are kept."""

    def build(self, env: VectorEnv) -> TerrainHeightSensor:
        return TerrainHeightSensor(self, env)


class TerrainHeightSensor(RayCastSensor):
    """See :class:`TerrainHeightSensorCfg`."""

    cfg: TerrainHeightSensorCfg

    @property
    def heights(self) -> torch.Tensor:
        """Heights in m, ``(num_envs, num_frames)``, with ``none`` each ray's in a third dimension.

        A ray that hits nothing measures ``max_distance``; if all of a frame's do, they measure the
        frame's own height, as in mjlab.
        """
        frames, farthest = len(self.frame_names), self.cfg.max_distance
        is_hit = self.is_hit.unflatten(1, (frames, -1))
        heights = self.clearances().unflatten(1, (frames, -1))
        if self.cfg.normals:
            below = self.normals_w[..., 2].unflatten(1, (frames, -1)) < 0.0
            heights = heights.masked_fill(below, 0.0)
        own = self.pos_w[..., 2:].clamp(0.0, farthest)
        missed = torch.where(is_hit.any(dim=2, keepdim=True), farthest, own)
        heights = torch.where(is_hit, heights, missed)
        if self.cfg.reduction == "none":
            return heights
        if self.cfg.reduction == "mean":
            return heights.mean(dim=2)
        return heights.amin(dim=2) if self.cfg.reduction == "min" else heights.amax(dim=2)


def _chosen(
    kind: str, patterns: str | list[str], num: int, lookup: Callable[[int], Any]
) -> list[int]:
    """Return the indices of the bodies or sites that patterns match."""
    if not patterns:
        return []
    names = [lookup(index).name for index in range(num)]
    found = matches(f"A ray sensor names the {kind}", patterns, list(filter(None, names)))
    return [names.index(name) for name in found]


RayDataType = Literal["distance_to_image_plane", "distance_to_camera", "normals"]
_REACH = 1.0e6
"""How far rays go, in m, as in Isaac Lab, which bounds distances afterwards."""


@dataclass(kw_only=True)
class RayCasterCameraCfg(RayCastSensorCfg):
    """Distances and normals by a ray for each pixel, which need no renderer; Isaac Lab's name."""

    offset: CameraOffsetCfg = field(default_factory=lambda: CameraOffsetCfg(convention="ros"))
    """Its pose on the body or site."""
    pattern_cfg: PinholeCameraPatternCfg = field(default_factory=PinholeCameraPatternCfg)
    """Pixels and lens."""
    data_types: list[RayDataType] = field(default_factory=lambda: ["distance_to_image_plane"])
    """Its images: distances along its axis or along each ray, in m, and normals of surfaces in the
    world's axes, 0 where a ray misses."""
    depth_clipping_behavior: Literal["max", "zero", "none"] = "max"
    """Distance of a pixel that sees nothing within ``max_distance``: that distance, or 0; with
    ``none`` it is the true distance, or inf if the ray misses."""

    @property
    def clipping_range(self) -> tuple[float, float]:
        """Minimum and maximum distance, in m."""
        return 0.0, self.max_distance

    def build(self, env: VectorEnv) -> RayCasterCamera:
        return RayCasterCamera(self, env)


class RayCasterCamera(RayCastSensor):
    """See :class:`RayCasterCameraCfg`."""

    cfg: RayCasterCameraCfg

    def __init__(self, cfg: RayCasterCameraCfg, env: VectorEnv) -> None:
        """Look up the body or site.

        Raises:
            ConfigurationError: If there is none, or several.
        """
        rot = math.convert_camera_frame_orientation_convention(
            torch.tensor([cfg.offset.rot]), cfg.offset.convention, "world"
        )
        offset = CameraOffsetCfg(pos=cfg.offset.pos, rot=tuple(rot[0].tolist()))
        normals = "normals" in cfg.data_types
        rays = dataclasses.replace(cfg, offset=offset, max_distance=_REACH, normals=normals)
        super().__init__(rays, env)
        if len(self.frame_names) > 1 or cfg.ray_alignment != "base":
            raise ConfigurationError(
                f"A RayCasterCameraCfg is on {', '.join(self.frame_names)}, with the ray_alignment "
                f"{cfg.ray_alignment!r}, but a camera is on one body or site and turns with it. "
                "Name one, with ray_alignment='base', or use a RayCastSensorCfg."
            )
        # Of the angles between rays and the axis.
        self._cosines = cfg.pattern_cfg.rays()[1][:, 0].to(env.device)
        self.cfg = dataclasses.replace(cfg, normals=normals)

    def image(self, data_type: RayDataType | None = None) -> torch.Tensor:
        """Return an image, float32 ``(num_envs, height, width, 1)``; normals have 3 channels.

        Args:
            data_type: One of the configured ones; None: the first.

        Raises:
            ConfigurationError: If the camera does not make it.
        """
        cfg = self.cfg
        data_type = data_type or cfg.data_types[0]
        if data_type not in cfg.data_types:
            raise ConfigurationError(
                f"A RayCasterCameraCfg makes {', '.join(cfg.data_types)}, but an image of it is to "
                f"be {data_type!r}. Add that to its data_types."
            )
        shape = (cfg.pattern_cfg.height, cfg.pattern_cfg.width)
        if data_type == "normals":
            return self.normals_w.unflatten(1, shape)
        distances = torch.where(self.is_hit, self.distances, torch.inf)
        if data_type == "distance_to_image_plane":
            distances = distances * self._cosines
        if cfg.depth_clipping_behavior == "max":
            distances = distances.clamp(max=cfg.max_distance)
        elif cfg.depth_clipping_behavior == "zero":
            distances = torch.where(distances > cfg.max_distance, 0.0, distances)
        return distances.unflatten(1, shape).unsqueeze(3)
