"""Watching environments live: ``--viz web`` and ``--viz native``.

Installed packages provide the viewers by entry points of the group ``envlab.viewers``, which are
loaded only on request.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from envlab.errors import ConfigurationError, did_you_mean
from envlab.plugins import named_plugins
from envlab.registry import load_entry_point
from envlab.training import isaac_lab
from envlab.training.flags import PORT, Flags

if TYPE_CHECKING:  # loads torch, but flags are read before that
    from envlab.envs import BatchedEnv

ENTRY_POINT_GROUP = "envlab.viewers"
"""Entry points that ``--viz`` names: ``(env, *, title, port, is_played) -> Viewer``. One that takes
``handles`` as well makes a :class:`HandViewer`, and has a method ``wants``."""

NUM_WATCHED = 4
"""Environments shown at a time, and made if they are only for watching."""


class Viewer(Protocol):
    """Shows environments while they are stepped."""

    label: str
    """The name of the policy that plays; it may be set."""

    @staticmethod
    def find_problem() -> str | None:
        """Return why it cannot show anything on this machine, if so."""

    @property
    def is_open(self) -> bool:
        """Whether the visitor has not ended it."""

    def after_step(self) -> None:
        """Show the state after a step; in play, wait as the visitor asks."""

    def wants_reset(self) -> bool:
        """Return whether the visitor has asked for a reset since the last call."""

    def close(self) -> None:
        """End it."""


Ask = Literal["grips", "begun", "kept", "discarded"]
"""To open or close the hand; to begin, keep or discard an episode."""


@dataclass(frozen=True, kw_only=True)
class Handles:
    """What a visitor moves by hand."""

    axes: tuple[str, ...]
    """Names of up to :data:`NUM_AXES` axes."""
    has_gripper: bool


NUM_AXES = 8
"""Axes that keys move."""


class HandViewer(Viewer, Protocol):
    """A viewer whose visitor moves something by hand."""

    @property
    def pushes(self) -> tuple[float, ...]:
        """How far each axis of the handles is pushed, -1 to 1; empty before anybody looks."""

    def wants(self, what: Ask) -> bool:
        """Return whether the visitor has asked for something since the last call."""


class Pace:
    """Waits, on each call, until a step's time has passed in the real world."""

    def __init__(self, step_dt: float) -> None:
        self._step_dt = step_dt
        self._end = time.monotonic()

    def __call__(self, speed: float = 1.0) -> None:
        """Wait for a step at ``speed``, in simulated seconds per second; it may be infinite."""
        # A late step delays all later ones, rather than making them catch up.
        now = time.monotonic()
        self._end = max(self._end + self._step_dt / speed, now)
        time.sleep(self._end - now)


def choose_viewer(flags: Flags) -> None:
    """Check ``--viz``, and replace Isaac Lab's word by ours.

    Raises:
        ConfigurationError: If there is no such viewer, or it leaves another flag without effect.
    """
    word = flags.viz
    if word in isaac_lab.VIEWERS:
        flags.viz = isaac_lab.VIEWERS[word]
        if flags.viz is None and word != "none":
            flags.without_effect.append(f"--viz {word}")
    elif word is not None and word not in (viewers := named_plugins(ENTRY_POINT_GROUP)):
        known = " or ".join(viewers) or "left out, as no viewer is installed"
        raise ConfigurationError(
            f"--viz is {word!r}, but must be {known}.{did_you_mean(word, viewers)}"
        )
    if flags.command == "play" and flags.viz is not None and flags.num_episodes is None:
        for name in ("json", "video"):
            if getattr(flags, name):
                raise ConfigurationError(
                    f"--{name} has no effect on --viz without --num_episodes, which plays until "
                    "you end it. Add --num_episodes, or leave one of them out."
                )


def check_viewing(flags: Flags, env: BatchedEnv) -> None:
    """Refuse ``--viz`` if it cannot work, before anything is written. Called by every rank.

    Raises:
        ConfigurationError: On every rank, if rank 0 cannot show these environments.
    """
    if flags.viz is None:
        return
    is_main = env.context.is_main
    problem = env.context.broadcast(_find_problem(flags.viz, env) if is_main else None)
    if problem is not None:
        raise ConfigurationError(problem)


def start_viewing(
    flags: Flags,
    env: BatchedEnv,
    *,
    title: str,
    is_played: bool = False,
    handles: Handles | None = None,
) -> Viewer | None:
    """Return the viewer that the flags ask for, on rank 0.

    Args:
        flags: ``viz`` and ``viz_port``.
        env: The environments.
        title: Title of the page.
        is_played: Whether the visitor may hold, push and command, as in play but not in training.
        handles: What the visitor moves by hand, if so; then it is a :class:`HandViewer`.

    Raises:
        ConfigurationError: If it cannot be started.
    """
    if flags.viz is None or not env.context.is_main:
        return None
    port = PORT if flags.viz_port is None else flags.viz_port
    shows = viewer_class(flags.viz)
    by_hand = {}
    if handles is not None:
        if not hasattr(shows, "wants"):
            raise ConfigurationError(
                f"--viz {flags.viz} takes no hand's keys. Use --viz web, or leave it out."
            )
        by_hand = {"handles": handles}
    viewer: Viewer = shows(env, title=title, port=port, is_played=is_played, **by_hand)
    return viewer


def _find_problem(name: str, env: BatchedEnv) -> str | None:
    """Return why these environments cannot be shown here, if so."""
    if not hasattr(env, "sim"):
        return (
            f"--viz shows tasks with a MuJoCo model, and {type(env).__name__} has none. Leave it "
            "out; --video records what such a task draws of itself."
        )
    problem: str | None = viewer_class(name).find_problem()
    return problem


def viewer_class(name: str) -> Any:
    """Return the viewer with a name."""
    return load_entry_point(named_plugins(ENTRY_POINT_GROUP)[name])
