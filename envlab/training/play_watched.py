"""Playing for a visitor: without end, and with each newer policy of the run."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envlab.errors import EnvlabError
from envlab.learner import Player
from envlab.run.checkpoints import Accept, Checkpoints
from envlab.training.viewing import Viewer

logger = logging.getLogger(__name__)

LOOK_S = 2.0
"""Time between two checks for a newer checkpoint."""


def label_of(path: Path, values: Mapping[str, Any]) -> str:
    """Return the viewer's words on the policy that plays."""
    return f"{path.name}: iteration {values['iteration']}, {values['frames']:,} frames"


def play_watched(
    env: Any,
    player: Player,
    viewer: Viewer,
    newer: Callable[[], Player | None] | None,
    num_steps: float = math.inf,
) -> None:
    """Play until the visitor ends it, or for a number of steps.

    Args:
        env: The environment, which is reset first.
        player: The policy.
        viewer: Holds each step for as long as the visitor wants.
        newer: Returns a policy to continue with, if there is one; None: it never changes.
        num_steps: Maximum number of steps.
    """
    obs, _ = env.reset()
    step = 0
    while viewer.is_open and step < num_steps:
        step += 1
        obs, *_ = env.step(player.act(obs))
        viewer.after_step()
        if viewer.wants_reset():
            obs, _ = env.reset()
        if newer is not None:
            player = newer() or player


class NewerPolicies:
    """Looks for newer checkpoints of a run that may still be training."""

    def __init__(
        self,
        folder: Path,
        selector: str,
        accept: Accept,
        make: Callable[[dict[str, Any]], Player],
        viewer: Viewer,
    ) -> None:
        """Look for nothing yet.

        Args:
            folder: The run's ``checkpoints/``.
            selector: ``latest`` or ``best``.
            accept: Rejects unwanted checkpoints.
            make: Makes a player from a checkpoint's contents.
            viewer: Shows which policy plays.
        """
        self._checkpoints, self._selector = Checkpoints(folder), selector
        self._accept, self._make, self._viewer = accept, make, viewer
        self._look_at = time.monotonic() + LOOK_S
        self._seen = self._stamp()

    def __call__(self) -> Player | None:
        """Return the newest policy if it has changed since the last call."""
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_S
        stamp = self._stamp()
        if stamp in (None, self._seen):
            return None
        self._seen = stamp
        try:
            path, values = self._checkpoints.find(self._selector, self._accept)
            player = self._make(values)
        except EnvlabError as error:
            logger.warning("A newer checkpoint cannot be played; the old one stays: %s", error)
            return None
        self._viewer.label = label_of(path, values)
        logger.info("Playing %s (iteration %d).", path, values["iteration"])
        return player

    def _stamp(self) -> tuple[int, int] | None:
        """Return a value that changes when another file takes the name; None without a file."""
        try:
            stat = (self._checkpoints.folder / f"{self._selector}.pt").stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns
