"""What a camera draws, and where: the part of pictures that needs no ``warp-lang``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

POSE_FIELDS = ("geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat")
LIGHT_FIELDS = ("light_xpos", "light_xdir")
"""Data fields that a camera reads; the latter for colours alone."""


@dataclass(frozen=True, kw_only=True)
class PictureCfg:
    """What a camera draws."""

    camera: int
    """Index of the camera in the model."""
    height: int
    """Pixels from top to bottom."""
    width: int
    """Pixels from left to right."""
    clipping_range: tuple[float, float]
    """Nearest and farthest visible depth, in m."""
    geoms: Sequence[int]
    """Indices of the visible geoms."""
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Colour where nothing is, if the model has no sky, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Where pictures are drawn; None: not drawn. Rings of ``num_slots`` for each environment."""

    depth: torch.Tensor | None = None
    """Float32 ``(num_envs, num_slots, height, width)``: along the camera's axis, in m; inf where
    nothing is seen."""
    rgb: torch.Tensor | None = None
    """Uint8 ``(num_envs, num_slots, height, width, 3)``."""
    segmentation: torch.Tensor | None = None
    """Int32 ``(num_envs, num_slots, height, width)``: the geom's index; -1 where nothing is."""


class Pictures(Protocol):
    """Draws a camera's pictures; see :meth:`envlab.sim.simulation.Simulation.pictures`."""

    def draw(self) -> None:
        """Draw the wanted environments."""
