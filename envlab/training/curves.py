"""Outputs of curves: TensorBoard's event files, and on request a tracker such as W&B."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab.run.event_file import EventFile
from envlab.training.trackers import ENDED, FRAMES, TRACKERS, TrackedRun, Tracker, advice

logger = logging.getLogger(__name__)

SAY_EVERY_S = 60.0
"""How often it is logged that a service does not take values, in seconds."""


class Curves:
    """Scalars of a run, on rank 0."""

    def __init__(self, events: EventFile, service: Tracker | None = None) -> None:
        self._events, self._service = events, service
        self._iteration = 0
        self._last_said: float | None = None

    @property
    def service_id(self) -> str | None:
        """The service's id of this run; a resumed run continues under it."""
        return None if self._service is None else self._service.id

    def start_iteration(self, iteration: int, frames: int) -> None:
        """Set the iteration of the values that come next.

        Args:
            iteration: Iterations done.
            frames: Environment steps of all ranks so far.
        """
        self._iteration = iteration
        self._send({FRAMES: float(frames)})

    def add(self, step: int, scalars: Mapping[str, float | None]) -> None:
        """Write values by tag, skipping None.

        Args:
            step: Their step on the curves, in the writer's unit. A service has only iterations.
            scalars: Values by tag.
        """
        values = {tag: float(value) for tag, value in scalars.items() if value is not None}
        if values:
            self._events.add(step, values)
            self._send(values)

    def close(self) -> None:
        """Write the waiting values, and close all outputs."""
        self._events.close()
        if self._service is None:
            return
        try:
            self._service.close()
        except Exception as error:  # as in _send
            logger.error(
                "%s did not take the end of the run (%s: %s); metrics.jsonl and the event files "
                "are complete.",
                type(self._service).__name__,
                type(error).__name__,
                error,
            )

    def _send(self, values: Mapping[str, float]) -> None:
        """Send values to the service, whose failures must not end the run."""
        if self._service is None:
            return
        try:
            self._service.log(self._iteration, values)
        except Exception as error:  # each service, and the network under it, raises its own errors
            now = time.monotonic()
            if self._last_said is None or now - self._last_said >= SAY_EVERY_S:
                self._last_said = now
                logger.error(
                    "%s did not take the values of iteration %d (%s: %s). The run continues; "
                    "metrics.jsonl and the event files have them.",
                    type(self._service).__name__,
                    self._iteration,
                    type(error).__name__,
                    error,
                )


def check_logger(name: str) -> None:
    """Refuse a logger that does not exist.

    Raises:
        ConfigurationError: If it is unknown, or its service has ended.
    """
    if name in ENDED:
        raise ConfigurationError(f"--logger {name} is no longer possible: {ENDED[name]}")
    if name != "tensorboard" and name not in TRACKERS:
        *first, last = TRACKERS
        raise ConfigurationError(
            f"--logger is {name!r}, but must be tensorboard, {', '.join(first)} or {last}."
        )


def open_curves(
    name: str,
    folder: Path,
    *,
    service_id: str | None = None,
    project: str | None = None,
    entity: str | None = None,
) -> Curves:
    """Open the event file of a run and, on request, its run at a tracker. Rank 0 only.

    A tracker that cannot be opened (not installed, not logged in, no network) is reported in one
    sentence, and the run continues without it.

    Args:
        name: ``tensorboard``, or one of :data:`~envlab.training.trackers.TRACKERS`.
        folder: The run directory.
        service_id: The tracker's run to continue, see :attr:`Curves.service_id`.
        project: The tracker's project; None: its own variable, or the experiment's name.
        entity: The user or team whose project it is; None: its own variable, or the account's.
    """
    make: Any = TRACKERS.get(name)
    service = None
    try:
        if make is not None:
            config = {path.stem: load_yaml(path) for path in folder.glob("params/*.yaml")}
            service = make(
                TrackedRun(
                    folder=folder, id=service_id, project=project, entity=entity, config=config
                )
            )
    except Exception as error:  # each client, and the network under it, raises its own errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        logger.error(
            "--logger %s cannot be opened: %s. The run continues without it; metrics.jsonl and the "
            "event files have all values. %s",
            name,
            reason,
            advice(name, error),
        )
    return Curves(EventFile(folder), service)
