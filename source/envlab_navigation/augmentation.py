"""Random changes of colour pictures: brightness, contrast, saturation, hue and noise."""

from __future__ import annotations

import torch
import warp as wp

from envlab.envs.masks import assign
from envlab.state import State
from envlab_navigation.augmentation_kernels import Changes, change_colours, measure_light
from envlab_navigation.nav_cfg import AugmentationCfg


class Augmentation:
    """Changes pictures in place.

    Attributes:
        bits: The random bits of each environment's latest picture, int64 ``(num_envs,)``.
    """

    STATE = State(per_env=("bits",))

    def __init__(self, cfg: AugmentationCfg, num_envs: int, device: torch.device) -> None:
        """Change pictures of ``num_envs`` environments."""
        wp.init()
        self._changes = Changes()
        for name in ("brightness", "contrast", "saturation", "hue", "noise"):
            setattr(self._changes, name, getattr(cfg, name))
        self._device = wp.device_from_torch(device)
        self._light = torch.zeros(num_envs, device=device)
        self.bits = torch.zeros(num_envs, dtype=torch.int64, device=device)

    def draw(self, bits: torch.Tensor, mask: torch.Tensor) -> None:
        """Take other random bits, int64 ``(num_envs,)``, for the environments of ``mask``."""
        assign(self.bits, mask, bits)

    def apply(self, rgb: torch.Tensor, mask: torch.Tensor) -> None:
        """Change the pictures of some environments.

        Args:
            rgb: Uint8 ``(num_envs, height, width, 3 * num_cameras)``.
            mask: Which environments, bool ``(num_envs,)``.
        """
        num_envs, height = rgb.shape[:2]
        pixels = wp.from_torch(rgb.view(num_envs, height, -1, 3), dtype=wp.vec3ub)
        wanted, light = wp.from_torch(mask), wp.from_torch(self._light)
        wp.launch(measure_light, dim=num_envs, inputs=[pixels, wanted, light], device=self._device)
        wp.launch(
            change_colours,
            dim=(num_envs, height),
            inputs=[pixels, wanted, light, wp.from_torch(self.bits), self._changes],
            device=self._device,
        )
