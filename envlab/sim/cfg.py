"""Settings of simulations: MuJoCo's own options, and what a camera draws, without ``warp-lang``.

Options (``env.sim.*``) are for where the file's are not wanted. Their names are those of MJCF's
``<option>`` (https://mujoco.readthedocs.io/en/stable/XMLreference.html), which says what each does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import mujoco
import numpy as np
import torch

from envlab.config import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
)

DisableFlag = Literal[
    "constraint",
    "equality",
    "frictionloss",
    "limit",
    "contact",
    "spring",
    "damper",
    "gravity",
    "clampctrl",
    "warmstart",
    "filterparent",
    "actuation",
    "refsafe",
    "sensor",
    "midphase",
    "eulerdamp",
    "autoreset",
    "nativeccd",
    "island",
    "multiccd",
]
EnableFlag = Literal["override", "energy", "fwdinv", "invdiscrete", "sleep"]


@dataclass(kw_only=True)
class OptionsCfg:
    """Options of MuJoCo; null: the file's."""

    integrator: Literal["euler", "rk4", "implicit", "implicitfast", "discrete"] | None = None
    """Numerical integrator; ``discrete`` is new in MuJoCo 4, ``rk4`` takes four passes a step."""
    solver: Literal["pgs", "cg", "newton"] | None = None
    """Constraint solver; ``mujoco_warp`` has no ``pgs``."""
    cone: Literal["pyramidal", "elliptic"] | None = None
    """Shape of friction cones."""
    jacobian: Literal["dense", "sparse", "auto"] | None = None
    """Storage of the constraints' Jacobian."""
    iterations: PositiveInt | None = None
    """Most iterations of the solver."""
    ls_iterations: PositiveInt | None = None
    """Most iterations of its line search."""
    noslip_iterations: NonNegativeInt | None = None
    """Iterations of the solver against slip."""
    tolerance: NonNegativeFloat | None = None
    """Improvement at which the solver ends."""
    ls_tolerance: NonNegativeFloat | None = None
    """The line search's."""
    impratio: PositiveFloat | None = None
    """Ratio of the impedances of friction and of normal forces."""
    gravity: tuple[float, float, float] | None = None
    """Acceleration of gravity in the world, in m/s^2."""
    wind: tuple[float, float, float] | None = None
    """Velocity of the medium, in m/s."""
    density: NonNegativeFloat | None = None
    """Density of the medium, in kg/m^3."""
    viscosity: NonNegativeFloat | None = None
    """Viscosity of the medium."""
    disable_flags: tuple[DisableFlag, ...] = ()
    """Parts of the pipeline to switch off, besides those that the file does."""
    enable_flags: tuple[EnableFlag, ...] = ()
    """Parts of the pipeline to switch on, besides those that the file does."""


_ENUMS = {
    "integrator": (mujoco.mjtIntegrator, "mjINT"),
    "solver": (mujoco.mjtSolver, "mjSOL"),
    "cone": (mujoco.mjtCone, "mjCONE"),
    "jacobian": (mujoco.mjtJacobian, "mjJAC"),
}
_NUMBERS = (
    *("iterations", "ls_iterations", "noslip_iterations", "tolerance", "ls_tolerance", "impratio"),
    *("gravity", "wind", "density", "viscosity"),
)
_FLAGS = {
    "disable": (mujoco.mjtDisableBit, "mjDSBL"),
    "enable": (mujoco.mjtEnableBit, "mjENBL"),
}


def apply_options(option: mujoco.MjOption, cfg: OptionsCfg) -> None:
    """Write the options that are set into those of a model, or of its specification."""
    for name, (kind, prefix) in _ENUMS.items():
        value = getattr(cfg, name)
        if value is not None:
            setattr(option, name, int(getattr(kind, f"{prefix}_{value.upper()}")))
    for name in _NUMBERS:
        value = getattr(cfg, name)
        if value is not None:
            setattr(option, name, value)
    for name, (kind, prefix) in _FLAGS.items():
        bits = getattr(option, f"{name}flags")
        for flag in getattr(cfg, f"{name}_flags"):
            bits |= int(getattr(kind, f"{prefix}_{flag.upper()}"))
        setattr(option, f"{name}flags", bits)


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
    """Minimum and maximum visible depth, in m."""
    geoms: Sequence[int]
    """Indices of the visible geoms."""
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Colour of empty space if the model has no sky, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Where pictures are drawn; None: not drawn. Rings of ``num_slots`` for each environment."""

    depth: torch.Tensor | None = None
    """Float32 ``(num_envs, num_slots, height, width)``: along the camera's axis, in m; inf where no
    geom is seen."""
    rgb: torch.Tensor | None = None
    """Uint8 ``(num_envs, num_slots, height, width, 3)``."""
    segmentation: torch.Tensor | None = None
    """Int32 ``(num_envs, num_slots, height, width)``: the geom's index; -1 where no geom is
    seen."""


@dataclass(kw_only=True)
class AugmentationCfg:
    """Random changes of each colour picture; 0 everywhere is off.

    The ranges of colours are those of torchvision's ``ColorJitter``, which RobustNav, built on
    AllenAct, has with 0.4 for all four.
    """

    brightness: UnitInterval = 0.0
    """Pictures are multiplied by a factor of up to this much above or below 1."""
    contrast: UnitInterval = 0.0
    """The same for differences from a picture's mean."""
    saturation: UnitInterval = 0.0
    """The same for differences from grey."""
    hue: Annotated[float, Range(at_least=0, at_most=0.5)] = 0.0
    """Colours turn by up to this part of the circle of hues, either way."""
    noise: UnitInterval = 0.0
    """Standard deviation of the noise of a pixel, as a part of the largest value."""
    blur: NonNegativeFloat = 0.0
    """Pictures are blurred by a Gaussian of up to this standard deviation, in pixels."""

    @property
    def changes_colours(self) -> bool:
        """Whether pictures change."""
        jitter = (self.brightness, self.contrast, self.saturation, self.hue)
        return any(change > 0.0 for change in (*jitter, self.noise, self.blur))


class Pictures(Protocol):
    """Draws a camera's pictures; see :meth:`envlab.sim.simulation.Simulation.pictures`."""

    def draw(self) -> None:
        """Draw the wanted environments."""


def lens(
    model: mujoco.MjModel, cfg: PictureCfg, params: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """Return x and y of the first pixel's centre at depth 1, and the steps to the next.

    Float32 ``(num_envs or 1, 4)``; more than a row only where ``params`` has other lenses.
    """

    def field(name: str) -> torch.Tensor:
        values = params.get(name)
        if values is None:
            values = torch.from_numpy(np.asarray(getattr(model, name), dtype=np.float32))[None]
        return values[:, cfg.camera]

    wide, high = model.cam_sensorsize[cfg.camera].tolist()
    if wide > 0.0 and high > 0.0:
        # Of a sensor of another shape than the image, the middle counts, as in mujoco_warp.
        wide, high = (
            min(wide, high * cfg.width / cfg.height),
            min(high, wide * cfg.height / cfg.width),
        )
        focal_x, focal_y, centre_x, centre_y = field("cam_intrinsic").unbind(dim=1)
        dx, dy = wide / cfg.width / focal_x, high / cfg.height / focal_y
        left, top = (centre_x - 0.5 * wide) / focal_x, (centre_y - 0.5 * high) / focal_y
    else:
        top = -torch.tan(torch.deg2rad(field("cam_fovy")) / 2.0)
        dx = dy = -2.0 * top / cfg.height
        left = -0.5 * cfg.width * dx
    return torch.stack((left + 0.5 * dx, top + 0.5 * dy, dx, dy), dim=1)


def ray_lengths(lenses: torch.Tensor, cfg: PictureCfg) -> torch.Tensor:
    """Return the lengths of pixels' rays at depth 1, ``(num_envs or 1, height, width)``.

    Args:
        lenses: See :func:`lens`.
        cfg: The camera.
    """
    x0, y0, dx, dy = lenses.unsqueeze(2).unbind(dim=1)
    x = x0 + dx * torch.arange(cfg.width, device=lenses.device)
    y = y0 + dy * torch.arange(cfg.height, device=lenses.device)
    return (1.0 + x.square().unsqueeze(1) + y.square().unsqueeze(2)).sqrt()
