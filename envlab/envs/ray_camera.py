"""A camera whose pixels are rays, in place of a picture that is drawn: ``RayCasterCameraCfg``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from envlab.envs import math
from envlab.envs.camera import CameraOffsetCfg
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.ray_sensor import RayCastSensor, RayCastSensorCfg
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

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
