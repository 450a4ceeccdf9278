"""Messages between the viewer's run and page. Imports no torch: the page has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import mujoco
import numpy as np

RATE_HZ = 30.0
"""Frames per second that the page asks for at most, in wall time."""
TRAINING_RATE_HZ = 20.0
"""The same for training, which spends 0.3 to 0.5 ms on an answer."""

Bounds = Mapping[str, tuple[float, float]]
"""Bounds of each element of a command, by its name."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Data that is sent to the page once."""

    title: str
    model: mujoco.MjModel
    """The model that all environments share; its randomisations are not shown."""
    num_envs: int
    num_shown: int
    """Number of environments that are shown at a time."""
    port: int
    """The wanted port."""
    is_played: bool
    """Whether the visitor may hold, push and command; training runs freely."""
    is_apart: bool
    """Whether environments lie apart on a terrain; else they are at the same place, and the page
    lays them out."""
    commands: Mapping[str, Bounds]
    """Commands that the visitor may set, by name."""
    axes: tuple[str, ...] = ()
    """What the visitor moves by hand, if so."""
    has_gripper: bool = False
    """Whether the hand closes."""
    is_script: bool = False
    """Whether a script steps them, which alone resets them, and which runs at full speed until the
    visitor chooses another."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The visitor's wishes; the page sends them each time it is ready for a frame."""

    first: int = 0
    """The first environment that is shown."""
    followed: int = 0
    """Index, among the shown ones, of the environment whose rewards are wanted."""
    is_paused: bool = False
    speed: float = 1.0
    """Simulated seconds per second; infinite: as fast as possible."""
    num_steps: int = 0
    """Total number of requests for a single step."""
    num_pushes: int = 0
    """Total number of requests for a push."""
    push: float = 1.0
    """Change of velocity by a push, in m/s."""
    num_resets: int = 0
    """Total number of requests for a reset."""
    pushes: tuple[float, ...] = ()
    """How far each of the stage's axes is pushed, -1 to 1."""
    num_grips: int = 0
    """Total number of requests to open or close the hand."""
    num_begun: int = 0
    """Total number of requests to begin an episode by hand."""
    num_kept: int = 0
    """Total number of requests to keep it."""
    num_discarded: int = 0
    """Total number of requests to discard it."""
    is_over: bool = False
    commands: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The visitor's commands; the task draws the others itself."""


@dataclass(frozen=True, kw_only=True)
class Markers:
    """Drawings of environment 0 in addition to its bodies, such as goals: ``k`` MuJoCo geoms."""

    types: np.ndarray
    """``(k,)``."""
    positions: np.ndarray
    """Positions in m, ``(k, 3)``."""
    rotations: np.ndarray
    """``(k, 3, 3)``."""
    sizes: np.ndarray
    """``(k, 3)``."""
    colours: np.ndarray
    """Red, green, blue and opacity, 0 to 1, ``(k, 4)``."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The state of the shown environments."""

    wishes: Wishes
    """The wishes that it answers."""
    qpos: np.ndarray
    """``(num_shown, nq)``."""
    qvel: np.ndarray
    """``(num_shown, nv)``."""
    ctrl: np.ndarray
    """``(num_shown, nu)``."""
    markers: Markers | None
    """None if environment 0 is not shown."""
    views: Mapping[str, np.ndarray]
    """What cameras of the followed environment see, uint8 ``(height, width, 3)``, by name."""
    rewards: Mapping[str, float]
    """Rewards of the followed environment in its last step, per second, by term."""
    time_s: float
    """Simulated time since the environments were made."""
    label: str
    """Progress of the run."""
