"""``--viz native``: MuJoCo's own window, of environment 0. Space pauses, the right arrow steps."""

from __future__ import annotations

import os
import time

import mujoco

from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab.tools.deploy import DeployError, open_window
from envlab.training.viewing import Pace
from envlab_web.viewer.messages import RATE_HZ

SPACE, RIGHT = 32, 262
"""GLFW's numbers of keys."""


class NativeViewer:
    """See :class:`envlab.training.viewing.Viewer`; it takes no reset."""

    def __init__(self, env: BatchedEnv, *, title: str, port: int, is_played: bool) -> None:
        """Open the window.

        Args:
            env: The environments, with a MuJoCo model.
            title: Printed, not shown.
            port: Unused.
            is_played: Whether the window holds the steps; training runs freely.

        Raises:
            ConfigurationError: If no window can be opened.
        """
        self._is_played, self._pace = is_played, Pace(env.step_dt)
        self._sim = env.sim  # type: ignore[attr-defined]
        look = getattr(env, "look", None)
        self._model, self._data = self._sim.model_of(0), self._sim.data_of(0)
        if look is not None:
            self._model, self._data = look.model, look.state_of(self._sim, 0)
        self._is_paused, self._num_steps = False, 0
        self._next = 0.0
        self.label = ""
        try:
            self._window = open_window(self._model, self._data, key_callback=self._on_key)
        except DeployError as error:
            raise ConfigurationError(
                f"--viz native: {error} Use --viz web, which a browser elsewhere can show."
            ) from None
        print(f"Viewer: {title}, environment 0, in a window of its own")

    @staticmethod
    def find_problem() -> str | None:
        """Return the reason if no window can be opened here."""
        if {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
            return None
        return (
            "--viz native opens a window, and this session has no display (neither DISPLAY nor "
            "WAYLAND_DISPLAY is set). Use --viz web, which a browser elsewhere can show."
        )

    @property
    def is_open(self) -> bool:
        """Whether the window has not been closed."""
        return bool(self._window.is_running())

    def after_step(self) -> None:
        """Show the state after a step; in play, wait for the step's end in real time."""
        now = time.monotonic()
        if now >= self._next and self.is_open:
            self._next = now + 1.0 / RATE_HZ
            self._show()
        if not self._is_played:
            return
        while self._is_paused and not self._num_steps and self.is_open:
            time.sleep(1.0 / RATE_HZ)
        self._num_steps = 0
        self._pace()

    def wants_reset(self) -> bool:
        """Return False: the window's own reset affects only its copy."""
        return False

    def close(self) -> None:
        """Close the window."""
        self._window.close()

    def _show(self) -> None:
        with self._window.lock():
            self._data.qpos[:] = self._sim.data.qpos[0].cpu().numpy()
            self._data.qvel[:] = self._sim.data.qvel[0].cpu().numpy()
            mujoco.mj_forward(self._model, self._data)
        self._window.sync()

    def _on_key(self, key: int) -> None:
        if key == SPACE:
            self._is_paused = not self._is_paused
        elif key == RIGHT:
            self._num_steps += 1
