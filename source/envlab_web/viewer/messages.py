"""What the run and the page of the viewer send each other. Imports no torch: the page has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import mujoco
import numpy as np

RATE_HZ = 30.0
"""Frames per second that the page asks for at most, in wall time."""
TRAINING_RATE_HZ = 20.0
"""The same of a training, which an answer costs 0.3 to 0.5 ms."""

Bounds = Mapping[str, tuple[float, float]]
"""Of each element of a command, by its name."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the page is told once."""

    title: str
    model: mujoco.MjModel
    """The one that all environments share; what is randomised of it is not shown."""
    num_envs: int
    num_shown: int
    """How many are shown at a time."""
    port: int
    """The port that is wanted."""
    is_played: bool
    """Whether the visitor may hold, push and command; a training goes on by itself."""
    is_apart: bool
    """Whether environments lie apart on a terrain; else they are at the same place, and the page
    lays them out."""
    commands: Mapping[str, Bounds]
    """What the visitor may command, by the command's name."""
    is_script: bool = False
    """Whether a script steps them, which nobody but itself resets, and which goes as fast as it can
    until the visitor chooses a speed."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the visitor wants; the page sends it each time it is ready for a frame."""

    first: int = 0
    """The first environment that is shown."""
    followed: int = 0
    """Whose rewards are wanted, of those that are shown."""
    is_paused: bool = False
    speed: float = 1.0
    """Simulated seconds per second; infinite: as fast as it goes."""
    num_steps: int = 0
    """How often a single step was asked for, in all."""
    num_pushes: int = 0
    """How often a push was asked for, in all."""
    push: float = 1.0
    """Change of velocity by a push, in m/s."""
    num_resets: int = 0
    """How often a reset was asked for, in all."""
    is_over: bool = False
    commands: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What the visitor commands; the task draws the others itself."""


@dataclass(frozen=True, kw_only=True)
class Markers:
    """What is drawn of environment 0 beside its bodies, such as goals: ``k`` geoms of MuJoCo's."""

    types: np.ndarray
    """``(k,)``."""
    positions: np.ndarray
    """In m, ``(k, 3)``."""
    rotations: np.ndarray
    """``(k, 3, 3)``."""
    sizes: np.ndarray
    """``(k, 3)``."""
    colours: np.ndarray
    """Red, green, blue and opacity, 0 to 1, ``(k, 4)``."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The state of the environments that are shown."""

    wishes: Wishes
    """Those that it answers."""
    qpos: np.ndarray
    """``(num_shown, nq)``."""
    qvel: np.ndarray
    """``(num_shown, nv)``."""
    ctrl: np.ndarray
    """``(num_shown, nu)``."""
    markers: Markers | None
    """None where environment 0 is not shown."""
    rewards: Mapping[str, float]
    """Of the environment that is followed in its last step, per second, by term."""
    time_s: float
    """Simulated time since the environments were made."""
    told: str
    """How far the run is."""
