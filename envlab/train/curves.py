"""Where curves go: TensorBoard's event files always, and a service such as W&B where asked for."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from envlab.errors import ConfigurationError
from envlab.runs.event_file import EventFile

logger = logging.getLogger(__name__)

SAY_EVERY_S = 60.0
"""How often it is said that a service does not take values, in seconds."""
FRAMES = "envlab/frames"
"""What a service is given beside each iteration's values, to draw them over."""


class Service(Protocol):
    """A logging service on the network."""

    id: str
    """What it calls this run."""

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        """Send an iteration's values by tag; it may be called several times an iteration."""

    def close(self) -> None:
        """Say that the run has ended."""


class WandbRun:
    """A run of Weights & Biases: its own, or one that is continued.

    Its step is the iteration. W&B refuses a step before its last one, so iterations that are done
    again after a resume leave the curve as it is.
    """

    def __init__(
        self, folder: Path, run_id: str | None, *, project: str | None, entity: str | None
    ) -> None:
        """Start it or go on with it.

        Args:
            folder: The run directory.
            run_id: The W&B run to continue; None: a new one. ``WANDB_RUN_ID`` wins over both.
            project: Its project; None: ``WANDB_PROJECT``, or the name of the folder's parent.
            entity: The user or team it belongs to; None: ``WANDB_ENTITY``, or the account's own.
        """
        self._wandb = importlib.import_module("wandb")
        self.id = os.environ.get("WANDB_RUN_ID") or run_id or secrets.token_hex(4)
        self._wandb.init(
            project=project or os.environ.get("WANDB_PROJECT") or folder.parent.name,
            entity=entity or os.environ.get("WANDB_ENTITY") or os.environ.get("WANDB_USERNAME"),
            name=None if run_id else folder.name,
            id=self.id,
            resume=os.environ.get("WANDB_RESUME") or "allow",
            dir=os.environ.get("WANDB_DIR") or str(folder),
            config={"log_dir": str(folder)},
        )
        self._wandb.define_metric(FRAMES)
        self._wandb.define_metric("envlab/*", step_metric=FRAMES)

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        self._wandb.log(dict(values), step=iteration)

    def close(self) -> None:
        self._wandb.finish()


class NeptuneRun:
    """A run of Neptune: its own, or one that is continued. The step is the iteration."""

    def __init__(
        self, folder: Path, run_id: str | None, *, project: str | None, entity: str | None
    ) -> None:
        """Start it or go on with it; see :class:`WandbRun`. A project is ``workspace/name``."""
        owner = entity or os.environ.get("NEPTUNE_USERNAME")
        project = project or os.environ.get("NEPTUNE_PROJECT")
        if owner and "/" not in (project or ""):
            project = f"{owner}/{project or folder.parent.name}"
        neptune = importlib.import_module("neptune")
        self._run = neptune.init_run(project=project, with_id=run_id)
        self._run["log_dir"] = str(folder)
        self.id = str(self._run["sys/id"].fetch())

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        for tag, value in values.items():
            self._run[tag].append(value, step=iteration)

    def close(self) -> None:
        self._run.stop()


SERVICES = {"wandb": WandbRun, "neptune": NeptuneRun}


class Curves:
    """Scalars of a run, on rank 0."""

    def __init__(self, events: EventFile, service: Service | None = None) -> None:
        self._events, self._service = events, service
        self._iteration = 0
        self._last_said: float | None = None

    @property
    def service_id(self) -> str | None:
        """What the service calls this run, to be given back when the run is resumed."""
        return None if self._service is None else self._service.id

    def start_iteration(self, iteration: int, frames: int) -> None:
        """Tell of which iteration the values are that come next.

        Args:
            iteration: Iterations done.
            frames: Environment steps of all ranks so far.
        """
        self._iteration = iteration
        self._send({FRAMES: float(frames)})

    def add(self, step: int, scalars: Mapping[str, float | None]) -> None:
        """Write values by tag; None is left out.

        Args:
            step: Where on their curves, in what their writer counts. A service has iterations only.
            scalars: Values by tag.
        """
        values = {tag: float(value) for tag, value in scalars.items() if value is not None}
        if values:
            self._events.add(step, values)
            self._send(values)

    def close(self) -> None:
        """Write what waits, and close what is open."""
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
        """Send values to the service, which must not end the run where it fails."""
        if self._service is None:
            return
        try:
            self._service.log(self._iteration, values)
        except Exception as error:  # each service, and the network under it, has errors of its own
            now = time.monotonic()
            if self._last_said is None or now - self._last_said >= SAY_EVERY_S:
                self._last_said = now
                logger.error(
                    "%s did not take the values of iteration %d (%s: %s). The run goes on; "
                    "metrics.jsonl and the event files have them.",
                    type(self._service).__name__,
                    self._iteration,
                    type(error).__name__,
                    error,
                )


def check_logger(name: str) -> None:
    """Refuse a logger that there is not.

    Raises:
        ConfigurationError: If it is unknown.
    """
    if name != "tensorboard" and name not in SERVICES:
        raise ConfigurationError(
            f"--logger is {name!r}, but must be tensorboard, {' or '.join(SERVICES)}."
        )


def open_curves(
    name: str,
    folder: Path,
    *,
    service_id: str | None = None,
    project: str | None = None,
    entity: str | None = None,
) -> Curves:
    """Open the event file of a run and, where asked for, its run at a service. Rank 0 only.

    A service that cannot be opened (not installed, not logged in, no network) is told in one
    sentence, and the run goes on without it.

    Args:
        name: ``tensorboard``, ``wandb`` or ``neptune``.
        folder: The run directory.
        service_id: The service's run to continue, see :attr:`Curves.service_id`.
        project: The service's project; None: its own variable, or the experiment's name.
        entity: The user or team whose project it is; None: its own variable, or the account's own.
    """
    make: Any = SERVICES.get(name)
    service = None
    try:
        if make is not None:
            service = make(folder, service_id, project=project, entity=entity)
    except Exception as error:  # each service, and the network under it, has errors of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        logger.error(
            "--logger %s cannot be opened: %s. The run goes on without it; metrics.jsonl and the "
            "event files have all values. %s",
            name,
            reason,
            _advice(name, error),
        )
    return Curves(EventFile(folder), service)


def _advice(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Install it with: pip install {name}"
    if name == "wandb":
        return "Log in with 'wandb login' or WANDB_API_KEY, or set WANDB_MODE=offline."
    return "Set NEPTUNE_API_TOKEN and NEPTUNE_PROJECT, or NEPTUNE_MODE=offline."
