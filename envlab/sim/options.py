"""MuJoCo's own options as settings (``env.sim.*``), where the file's are not wanted.

Names are those of MJCF's ``<option>`` (https://mujoco.readthedocs.io/en/stable/XMLreference.html),
which says what each does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco

from envlab.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

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
