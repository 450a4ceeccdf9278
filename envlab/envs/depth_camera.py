"""Depth images of every environment, from rays cast by a camera of the model: no renderer.

The backends cast the rays (``Simulation.rays``), so images are equal on all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import mujoco
import torch

from envlab.errors import ConfigurationError, did_you_mean
from envlab.sim.simulation import Simulation


@dataclass(kw_only=True)
class DepthCameraCfg:
    """A pinhole camera with square pixels (``env.depth_camera.*``)."""

    camera: str = ""
    """Name of the camera in the MJCF, fixed or on a body; the latter reads the data fields
    ``cam_xpos`` and ``cam_xmat``, which the task declares in ``env.sim.data_fields``."""
    width: int = 64
    """Pixels from left to right."""
    height: int = 64
    """Pixels from top to bottom."""
    fovy: float | None = None
    """Vertical field of view, in degrees; null: that of the MJCF."""
    clipping_range: tuple[float, float] = (0.1, 20.0)
    """Anything nearer than the first or farther than the second is not seen; along the camera's
    axis, in m."""
    data_type: Literal["depth", "distance_to_image_plane", "distance_to_camera"] = "depth"
    """``depth``, which is ``distance_to_image_plane``: along the camera's axis, in m; or
    ``distance_to_camera``: along the pixel's ray."""
    depth_clipping_behavior: Literal["zero", "max"] = "zero"
    """Value of a pixel that sees nothing: 0, or the far end of ``clipping_range``."""
    geom_groups: list[int] | None = None
    """Groups of geoms that are seen, 0 to 5; null: all."""
    sees_own_body: bool = False
    """Whether a camera on a body sees the geoms of that body."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an image: height, width, 1."""
        return (self.height, self.width, 1)


class DepthCamera:
    """Takes a depth image in each environment of a simulation."""

    def __init__(self, cfg: DepthCameraCfg, sim: Simulation) -> None:
        """Look up the camera.

        Raises:
            ConfigurationError: If there is none of this name, or it cannot make an image.
        """
        _check(cfg)
        self.cfg, self._sim = cfg, sim
        model = sim.model
        names = [model.camera(index).name for index in range(model.ncam)]
        if cfg.camera not in names:
            raise ConfigurationError(
                f"The depth camera is called {cfg.camera!r}, but the model has the cameras "
                f"{', '.join(names) or '(none)'}.{did_you_mean(cfg.camera, names)}"
            )
        self._index = names.index(cfg.camera)
        fovy = float(model.cam_fovy[self._index]) if cfg.fovy is None else cfg.fovy
        rays = pixel_rays(cfg.height, cfg.width, fovy).to(sim.device)
        self._rays = rays
        """Rays in the camera's frame, of length 1 along its axis, ``(num_pixels, 3)``."""
        self._scale = rays.norm(dim=1) if cfg.data_type == "distance_to_camera" else None
        body = int(model.cam_bodyid[self._index])
        self._excluded = -1 if body == 0 or cfg.sees_own_body else body
        self._fixed = self._fixed_rays() if self._is_fixed() else None

    def image(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return depth images of the current state, float32 ``(num_envs, height, width, 1)``.

        Args:
            mask: Environments whose images are needed, bool ``(num_envs,)``; None: all. The other
                images are meaningless. It saves time on a CPU.
        """
        origins, directions = self._fixed or self._moving_rays()
        distance, _ = self._sim.rays(
            origins,
            directions,
            geom_groups=self.cfg.geom_groups,
            exclude_body=self._excluded,
            mask=mask,
        )
        near, far = self.cfg.clipping_range
        depth = distance + near
        seen = (distance >= 0.0) & (depth <= far)
        if self._scale is not None:
            depth = depth * self._scale
        nothing = far if self.cfg.depth_clipping_behavior == "max" else 0.0
        return torch.where(seen, depth, nothing).view(-1, *self.cfg.shape)

    def _is_fixed(self) -> bool:
        model = self._sim.model
        is_on_world = model.body_weldid[model.cam_bodyid[self._index]] == 0
        is_plain = model.cam_mode[self._index] == mujoco.mjtCamLight.mjCAMLIGHT_FIXED
        can_differ = {"cam_pos", "cam_quat", "body_pos", "body_quat"} & set(self._sim.params)
        return bool(is_on_world and is_plain and not can_differ)

    def _fixed_rays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return origins and directions that all environments share, as expanded views."""
        model = self._sim.model
        scene = mujoco.MjData(model)
        mujoco.mj_kinematics(model, scene)
        mujoco.mj_comPos(model, scene)
        mujoco.mj_camlight(model, scene)
        position = torch.tensor(scene.cam_xpos[self._index], dtype=torch.float32)
        rotation = torch.tensor(scene.cam_xmat[self._index], dtype=torch.float32)
        device = self._sim.device
        return self._place(position.view(1, 3).to(device), rotation.view(1, 3, 3).to(device))

    def _moving_rays(self) -> tuple[torch.Tensor, torch.Tensor]:
        data = self._sim.data
        rotation = data.cam_xmat[:, self._index].view(-1, 3, 3)
        return self._place(data.cam_xpos[:, self._index], rotation)

    def _place(
        self, position: torch.Tensor, rotation: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return world-frame origins, on the near plane, and directions of all pixels.

        Args:
            position: Of the camera, ``(num_envs, 3)`` or, for all environments, ``(1, 3)``.
            rotation: From the camera's frame to the world's, ``(num_envs or 1, 3, 3)``.
        """
        directions = self._rays @ rotation.transpose(1, 2)
        # From there, a ray misses whatever is nearer, as a renderer's does.
        origins = position.unsqueeze(1) + self.cfg.clipping_range[0] * directions
        shape = (self._sim.num_envs, -1, -1)
        return origins.expand(shape), directions.expand(shape)


def pixel_rays(height: int, width: int, fovy: float) -> torch.Tensor:
    """Return rays through the centres of all pixels, row by row from the top left.

    Args:
        height: Pixels from top to bottom.
        width: Pixels from left to right.
        fovy: Vertical field of view, in degrees.

    Returns:
        Float32 ``(height * width, 3)`` in MuJoCo's camera frame: x to the right, y up, and -1 along
        z, which points backwards.
    """
    pixel = 2.0 * math.tan(math.radians(fovy) / 2.0) / height
    x = (torch.arange(width, dtype=torch.float64) + 0.5 - width / 2.0) * pixel
    y = (height / 2.0 - 0.5 - torch.arange(height, dtype=torch.float64)) * pixel
    grid_y, grid_x = torch.meshgrid(y, x, indexing="ij")
    return torch.stack((grid_x, grid_y, -torch.ones_like(grid_x)), dim=-1).view(-1, 3).float()


def _check(cfg: DepthCameraCfg) -> None:
    near, far = cfg.clipping_range
    if cfg.width < 1 or cfg.height < 1:
        raise ConfigurationError(
            f"The depth camera makes images of {cfg.height} x {cfg.width} pixels, but needs at "
            "least one. Set its height and width."
        )
    if cfg.fovy is not None and not 0.0 < cfg.fovy < 180.0:
        raise ConfigurationError(
            f"The depth camera's fovy is {cfg.fovy}, but must lie between 0 and 180 degrees."
        )
    if not 0.0 <= near < far:
        raise ConfigurationError(
            f"The depth camera's clipping_range is {[near, far]}, but must be two distances in "
            "m, the nearer first."
        )
