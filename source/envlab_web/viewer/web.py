"""``--viz web``, in the process of the run: answers the page and applies its visitor's input."""

from __future__ import annotations

import importlib.util
import logging
import math
import subprocess
import time

from envlab.child import Child, ChildError
from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError, EnvlabError
from envlab.training.viewing import NUM_WATCHED, Ask, Handles, Pace
from envlab_web.viewer.messages import RATE_HZ, Frame, Markers, Stage, Wishes
from envlab_web.viewer.steering import Steering, marker_geoms, rewards_of, shown_commands

logger = logging.getLogger(f"envlab.{__name__}")

START_S = 180.0
"""Timeout of the page's start, in seconds."""
MARKERS_S = 0.2
"""Largest age of markers in training."""
CLOSE_S = 5.0
"""Timeout of the page's end, in seconds."""


class WebViewer:
    """See :class:`envlab.training.viewing.Viewer`.

    Attributes:
        address: The URL to open in a browser.
        label: The policy in play, for the page; training shows its iteration.
        is_open: Whether the visitor has not ended it.
    """

    def __init__(
        self,
        env: BatchedEnv,
        *,
        title: str,
        port: int,
        is_played: bool,
        handles: Handles | None = None,
    ) -> None:
        """Start the page and print its address.

        Args:
            env: The environments, with a MuJoCo model.
            title: Title of the page.
            port: The wanted port.
            is_played: Whether the visitor may hold, push and command.
            handles: What the visitor moves by hand, if so.

        Raises:
            ConfigurationError: If the page does not start.
        """
        self._env, self._is_played = env, is_played
        # For a population, which has several batches of environments, the first member's.
        self._num_envs = int(env.sim.num_envs)  # type: ignore[attr-defined]
        self._num_shown = min(NUM_WATCHED, self._num_envs)
        self._steering = Steering(env)
        self._unwatched = self._wishes = Wishes()
        self.next_frame_at = self._next_markers = 0.0
        self._pace = Pace(env.step_dt)
        self._is_lost = False
        self.is_open, self.label = True, ""
        look = getattr(env, "look", None)
        stage = Stage(
            title=title,
            model=look.model if look else env.sim.model,  # type: ignore[attr-defined]
            num_envs=self._num_envs,
            num_shown=self._num_shown,
            port=port,
            is_played=is_played,
            is_apart=bool(env.env_origins.any()),  # type: ignore[attr-defined]
            commands=shown_commands(env) if is_played else {},
            axes=handles.axes if handles else (),
            has_gripper=handles is not None and handles.has_gripper,
            is_script=not getattr(env, "resets", True),
        )
        if stage.is_script:
            self._unwatched = self._wishes = Wishes(speed=math.inf)
        self._start(stage)

    @staticmethod
    def find_problem() -> str | None:
        """Return the reason if no page can be served here."""
        missing = [name for name in ("viser", "mjviser") if importlib.util.find_spec(name) is None]
        if not missing:
            return None
        return (
            f"--viz web needs the packages 'viser' and 'mjviser'. Not installed: "
            f"{', '.join(missing)}. Install with: pip install -c constraints.txt -e '.[viewer]'"
        )

    def after_step(self) -> None:
        """Answer the page if it asks; in play, wait for the step's end in real time."""
        if not self._is_lost and time.monotonic() >= self.next_frame_at:
            self._answer()
        if self._is_played:
            self._wait()

    def wants_reset(self) -> bool:
        """Return whether the visitor has asked for a reset since the last call."""
        return self._steering.take("num_resets", self._wishes)

    @property
    def pushes(self) -> tuple[float, ...]:
        """How far the visitor pushes each axis of the handles, -1 to 1."""
        return self._wishes.pushes

    def wants(self, what: Ask) -> bool:
        """Return whether the visitor has asked for something since the last call."""
        return self._steering.take(f"num_{what}", self._wishes)

    def close(self) -> None:
        """End the page."""
        self._page.end(CLOSE_S)

    def _start(self, stage: Stage) -> None:
        self._page = Child(
            "envlab_web.viewer.page:main",
            stage,
            timeout_s=START_S,
            environ={"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,  # viser prints there when it stops
        )
        try:
            self.address, lines = self._page.receive()
        except EnvlabError as error:
            self.close()
            if isinstance(error, ChildError):
                raise ConfigurationError(f"The viewer did not start ({error}).") from None
            raise
        print(lines, flush=True)

    def _answer(self) -> None:
        """Read and fulfil the visitor's wishes, and send a frame, if the page is ready for one."""
        self.next_frame_at = time.monotonic() + 0.5 / RATE_HZ
        try:
            if not self._page.connection.poll():
                return
            self._wishes = self._page.receive()
            self._page.send(self._frame())
        except (ChildError, OSError):
            self._is_lost = True
            self._wishes = self._unwatched
            logger.warning("The viewer has ended by itself; the run continues without it.")
            return
        if self._is_played:
            self.is_open = not self._wishes.is_over
            if self._steering.take("num_pushes", self._wishes):
                self._steering.push(self._shown(), self._wishes.push)

    def _wait(self) -> None:
        """Wait while the visitor pauses, then until the step's end in real time."""
        while self._wishes.is_paused and self.is_open:
            if self._steering.take("num_steps", self._wishes):
                break
            time.sleep(0.5 / RATE_HZ)
            self._answer()
        self._pace(self._wishes.speed)
        self._steering.hold(self._wishes)

    def _marked(self) -> Markers:
        """Return the markers; in training those of up to 0.2 s ago, as they are slow."""
        if self._is_played or time.monotonic() >= self._next_markers:
            self._next_markers = time.monotonic() + MARKERS_S
            self._markers = marker_geoms(self._env)
        return self._markers

    def _shown(self) -> slice:
        first = max(0, min(self._wishes.first, self._num_envs - self._num_shown))
        return slice(first, first + self._num_shown)

    def _frame(self) -> Frame:
        env, rows = self._env, self._shown()
        sim = env.sim  # type: ignore[attr-defined]
        fields = (sim.data.qpos, sim.data.qvel, sim.ctrl)
        sensors = getattr(env, "sensor_manager", None)
        qpos, qvel, ctrl = (values[rows].cpu() for values in fields)
        return Frame(
            wishes=self._wishes,
            qpos=qpos.numpy(),
            qvel=qvel.numpy(),
            ctrl=ctrl.numpy(),
            markers=self._marked() if rows.start == 0 else None,
            views={} if sensors is None else sensors.previews(rows.start + self._wishes.followed),
            rewards=rewards_of(env, rows.start + self._wishes.followed),
            time_s=env.common_step_counter * env.step_dt,
            label=self.label if self._is_played else f"Iteration {env.context.progress.iteration}",
        )
