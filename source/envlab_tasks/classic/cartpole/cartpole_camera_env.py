"""Isaac-Cartpole-RGB-Camera-Direct-v0 and its kin in depth: a pole that is balanced by sight.

The MDP is that of Isaac Lab 2.3 (cartpole_camera_env.py): rewards of the direct Cartpole, first
angles of up to 22.5 degrees, one image, clipped at 0.1 and 20 m. Colours are from 0 to 1, less each
channel's mean over the image; a depth that is farther is 0.

Differs from Isaac Lab 2.3.2:

- The image is Isaac Lab's of 100 x 100 pixels without the rows that the pole never reaches and the
  columns beyond 2.1 m; it is mirrored and does not show the floor.
- The agents have fewer filters and units, a shorter horizon and a higher learning rate.
- Colours, sky and lights are those of this model's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from envlab.envs import SceneCfg, default
from envlab.envs.camera import CameraCfg, DataType
from envlab_tasks.classic.cartpole.cartpole_direct_env import (
    CartpoleDirectEnv,
    CartpoleDirectEnvCfg,
)


def camera(data_type: DataType) -> CameraCfg:
    """Return the camera, at 5 m from the rail.

    At that distance a pixel is 4.4 cm wide, as in Isaac Lab's image, and the pole 4 cm, so that 8 %
    of the upright poles are invisible between two columns. One image shows no velocity, but the
    rail's friction makes the cart's velocity follow the force, so that pushing in proportion to the
    angle damps the pole: a single image is enough, as in Isaac Lab. ``history_length`` gives more.
    """
    return CameraCfg(
        camera_name="depth",
        data_types=[data_type],
        width=96,
        height=24,
        clipping_range=(0.1, 20.0),
        depth_clipping_behavior="zero",
    )


@dataclass(kw_only=True)
class CartpoleRGBCameraEnvCfg(CartpoleDirectEnvCfg):
    """Balance a pole that is observed by colour images, not by its state."""

    observation_space: int | list[int] | None = None
    """Null: height and width of the camera's image, and its channels."""
    scene: SceneCfg = default(SceneCfg(num_envs=512, model="envlab_assets:robots/cartpole.xml"))
    tiled_camera: CameraCfg = default(camera("rgb"))
    """The camera, by Isaac Lab's name."""
    initial_pole_angle_range: tuple[float, float] = (-0.125, 0.125)


@dataclass(kw_only=True)
class CartpoleDepthCameraEnvCfg(CartpoleDirectEnvCfg):
    """Balance a pole that is observed by depth images, not by its state."""

    __former_names__: ClassVar[dict[str, str]] = {"frame_stack": "depth_camera.history_length"}

    observation_space: int | list[int] | None = None
    """Null: height and width of the camera's image, and its channels."""
    scene: SceneCfg = default(SceneCfg(num_envs=512, model="envlab_assets:robots/cartpole.xml"))
    depth_camera: CameraCfg = default(camera("depth"))
    """The camera."""
    initial_pole_angle_range: tuple[float, float] = (-0.125, 0.125)


class CartpoleCameraEnv(CartpoleDirectEnv):
    """The tasks as one class; only the observations differ from the direct Cartpole's."""

    cfg: CartpoleRGBCameraEnvCfg | CartpoleDepthCameraEnvCfg  # type: ignore[assignment]

    def _get_observations(self) -> dict[str, torch.Tensor]:
        if isinstance(self.cfg, CartpoleDepthCameraEnvCfg):
            return {"policy": self.sensor("depth_camera").image()}
        colours = self.sensor("tiled_camera").image() / 255.0
        return {"policy": colours - colours.mean(dim=(1, 2), keepdim=True)}
