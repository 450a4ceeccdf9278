"""Watching environments live: ``--viz web`` and ``--viz native``.

The viewers stand above the libraries and are named here as text, so that nothing of them is loaded
where none was asked for.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from typing import TYPE_CHECKING, Protocol

from envlab.errors import ConfigurationError
from envlab.registry import load_entry_point

if TYPE_CHECKING:  # which loads torch, and flags are read before
    from envlab.envs import BatchedEnv

VIEWERS = {
    "web": "envlab_web.viewer.web:WebViewer",
    "native": "envlab_web.viewer.native:NativeViewer",
}
"""What ``--viz`` names: ``(env, *, title, port, is_played) -> Viewer``."""

NUM_WATCHED = 4
"""Environments that are shown at a time, and that are made where they are only to be watched."""

PORT = 8088
"""Where ``--viz web`` looks for a free port first."""


class Viewer(Protocol):
    """Shows environments while they are stepped."""

    told: str
    """Which policy plays; it may be set."""

    @property
    def is_open(self) -> bool:
        """Whether the visitor has not ended it."""

    def after_step(self) -> None:
        """Show the state after a step; in play, wait as the visitor says."""

    def wants_reset(self) -> bool:
        """Return whether the visitor has asked for a reset since the last call."""

    def close(self) -> None:
        """End it."""


class Pace:
    """Waits, each time it is called, until another step is over in the world."""

    def __init__(self, step_dt: float) -> None:
        self._step_dt = step_dt
        self._end = time.monotonic()

    def __call__(self, speed: float = 1.0) -> None:
        """Wait for a step at ``speed``, in simulated seconds per second; it may be infinite."""
        # One that took too long moves all later ones: nothing is made up for in a rush.
        now = time.monotonic()
        self._end = max(self._end + self._step_dt / speed, now)
        time.sleep(self._end - now)


def check_viewing(flags: argparse.Namespace, env: BatchedEnv) -> None:
    """Refuse ``--viz`` where it cannot work, before anything is written. Called by every rank.

    Raises:
        ConfigurationError: On every rank, if rank 0 cannot show these environments.
    """
    if getattr(flags, "viz", None) is None:
        return
    is_main = env.context.is_main
    problem = env.context.broadcast(_find_problem(flags.viz, env) if is_main else None)
    if problem is not None:
        raise ConfigurationError(problem)


def start_viewing(
    flags: argparse.Namespace, env: BatchedEnv, *, title: str, is_played: bool = False
) -> Viewer | None:
    """Return the viewer that the flags ask for, on rank 0.

    Args:
        flags: ``viz`` and ``viz_port``.
        env: The environments.
        title: What the page is called.
        is_played: Whether the visitor may hold, push and command: not in a training.

    Raises:
        ConfigurationError: If it cannot be started.
    """
    if getattr(flags, "viz", None) is None or not env.context.is_main:
        return None
    port = PORT if flags.viz_port is None else flags.viz_port
    make = load_entry_point(VIEWERS[flags.viz])
    viewer: Viewer = make(env, title=title, port=port, is_played=is_played)
    return viewer


def _find_problem(name: str, env: BatchedEnv) -> str | None:
    """Return why these environments cannot be shown here, if so."""
    if not hasattr(env, "sim"):
        return (
            f"--viz shows tasks with a MuJoCo model, and {type(env).__name__} has none. Leave it "
            "out; --video records what such a task draws of itself."
        )
    missing = [one for one in ("viser", "mjviser") if importlib.util.find_spec(one) is None]
    if name == "web" and missing:
        return (
            f"--viz web needs the packages 'viser' and 'mjviser', but {' and '.join(missing)} is "
            "not installed. Install it with: pip install -c constraints.txt -e '.[viewer]'"
        )
    if name == "native" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        return (
            "--viz native opens a window, and this session has no display (neither DISPLAY nor "
            "WAYLAND_DISPLAY is set). Use --viz web, which a browser elsewhere can show."
        )
    return None
