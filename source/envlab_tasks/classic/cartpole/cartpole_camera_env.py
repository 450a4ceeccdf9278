"""Isaac-Cartpole-Depth-Camera-Direct-v0: balancing by sight.

The MDP is that of Isaac Lab 2.3 (cartpole_camera_env.py): rewards of the direct Cartpole, first
angles of up to 22.5 degrees, one depth image, clipped at 0.1 and 20 m, where what is farther is 0.

Differs from Isaac Lab 2.3.2:

- The image is that of 100 x 100 pixels there without the rows in which the pole never is and the
  columns beyond 2.1 m; it is mirrored, and the floor does not show in it.
- The agents have fewer filters and units, a shorter horizon and a higher learning rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from envlab.envs import SceneCfg, default
from envlab.envs.depth_camera import DepthCamera, DepthCameraCfg
from envlab.errors import ConfigurationError
from envlab.state import State
from envlab_tasks.classic.cartpole.cartpole_direct_env import (
    CartpoleDirectEnv,
    CartpoleDirectEnvCfg,
)


@dataclass(kw_only=True)
class CartpoleDepthCameraEnvCfg(CartpoleDirectEnvCfg):
    """Balance a pole that is observed by images, not by its state."""

    observation_space: int | list[int] | None = None
    """Null: height and width of the camera's image, and a channel for each frame."""
    scene: SceneCfg = default(SceneCfg(num_envs=512, model="envlab_assets:robots/cartpole.xml"))
    depth_camera: DepthCameraCfg = default(DepthCameraCfg(camera="depth", width=96, height=24))
    """At 5 m from the rail. A pixel is 4.4 cm there, as in Isaac Lab's image, and the pole 4 cm, so
    that 8 % of the upright poles are invisible between two columns."""
    frame_stack: int = 1
    """Images that are observed together, the newest in the last channel. One image shows no
    velocity, but the rail's friction makes the cart's velocity follow the force, so that pushing in
    proportion to the angle damps the pole: one is enough, as in Isaac Lab."""
    initial_pole_angle_range: tuple[float, float] = (-0.125, 0.125)


class CartpoleDepthCameraEnv(CartpoleDirectEnv):
    """The task as one class; only the observations differ from the direct Cartpole's."""

    STATE = State(per_env=("_last_frames",))
    cfg: CartpoleDepthCameraEnvCfg
    _last_frames: torch.Tensor | None = None

    def _setup(self) -> None:
        super()._setup()
        if self.cfg.frame_stack < 1:
            raise ConfigurationError(
                f"env.frame_stack is {self.cfg.frame_stack}, but at least one image is observed."
            )
        self._camera_sensor = DepthCamera(self.cfg.depth_camera, self.sim)
        if self.cfg.frame_stack > 1:
            height, width, _ = self.cfg.depth_camera.shape
            shape = (self.num_envs, height, width, self.cfg.frame_stack)
            self._last_frames = torch.zeros(shape, device=self.device)
        self._ended: torch.Tensor | None = None

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        super()._pre_physics_step(actions)
        if self._last_frames is not None:
            self._last_frames.copy_(self.obs_buf["policy"])

    def _get_observations(self) -> dict[str, torch.Tensor]:
        image = self._camera_sensor.image(self._ended)
        if self._last_frames is None:
            return {"policy": image}
        seen = torch.cat((self._last_frames[..., 1:], image), dim=-1)
        is_first = (self.episode_length_buf == 0).view(-1, 1, 1, 1)
        return {"policy": torch.where(is_first, image, seen)}

    # Before a reset only the ended episodes' last images are needed, after it those of all.

    def _before_resets(self, mask: torch.Tensor) -> None:
        self._ended = mask

    def _after_resets(self) -> None:
        self._ended = None
