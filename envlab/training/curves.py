"""Outputs of curves: TensorBoard's event files, and ``--logger wandb | mlflow | trackio``.

A tracker is a few calls of its client, which is imported when a run is opened. A resumed run
continues the tracker's run, found by its id.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab.run.checkpoints import Checkpoints
from envlab.run.event_file import EventFile

logger = logging.getLogger(__name__)

FRAMES = "envlab/frames"
"""A tag logged with each iteration's values, for use as a horizontal axis."""
ENDED = {
    "neptune": "Neptune's service ended on 5 March 2026 (docs.neptune.ai/transition_hub). Use "
    "wandb, mlflow or trackio.",
}
"""Services that no longer exist."""


class Tracker(Protocol):
    """A run at an experiment tracker."""

    id: str
    """The tracker's id of this run."""

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        """Send an iteration's values by tag, possibly in several calls."""

    def close(self) -> None:
        """Report that the run has ended."""


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """Facts for a tracker on a run that starts or continues."""

    folder: Path
    """The run directory."""
    id: str | None
    """The tracker's run to continue; None: a new one."""
    project: str | None
    """The tracker's project; None: its own variable, or the name of the folder's parent."""
    entity: str | None
    """The user or team it belongs to; None: the tracker's own variable, or the account's."""
    config: Mapping[str, Any]
    """The run's configuration by root: ``env``, ``agent``."""


class WandbRun:
    """A run of Weights & Biases, new or continued.

    Its step is the iteration. W&B refuses a step before its last one, so iterations that are
    repeated after a resume leave the curve as it is.
    """

    def __init__(self, run: TrackedRun) -> None:
        """Start it, or continue it; ``WANDB_RUN_ID`` wins over the id."""
        self._wandb = importlib.import_module("wandb")
        self.id = os.environ.get("WANDB_RUN_ID") or run.id or secrets.token_hex(4)
        self._wandb.init(
            project=run.project or os.environ.get("WANDB_PROJECT") or run.folder.parent.name,
            entity=run.entity or os.environ.get("WANDB_ENTITY") or os.environ.get("WANDB_USERNAME"),
            name=None if run.id else run.folder.name,
            id=self.id,
            resume=os.environ.get("WANDB_RESUME") or "allow",
            dir=os.environ.get("WANDB_DIR") or str(run.folder),
            config={"log_dir": str(run.folder), **run.config},
        )
        self._folder = run.folder
        self._wandb.define_metric(FRAMES)
        self._wandb.define_metric("envlab/*", step_metric=FRAMES)

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        self._wandb.log(dict(values), step=iteration)

    def close(self) -> None:
        """End it, and upload the newest and best checkpoints; see :mod:`envlab.run.pretrained`."""
        checkpoints = Checkpoints(self._folder / "checkpoints")
        newest = [f"checkpoints/model_{number}.pt" for number in checkpoints.iterations()[-1:]]
        for path in (
            path
            for pattern in ("run.json", "params/*.yaml", "checkpoints/best.pt", *newest)
            for path in self._folder.glob(pattern)
        ):
            self._wandb.save(str(path), base_path=str(self._folder), policy="now")
        self._wandb.finish()


class MlflowRun:
    """A run of MLflow, new or continued. The step is the iteration.

    It is kept at ``MLFLOW_TRACKING_URI``, or at MLflow's default: ``mlflow.db`` in the folder where
    training was started. The project is MLflow's experiment.
    """

    MOST_PARAMS = 100
    """Parameters that MLflow takes at a time."""
    LONGEST = 6000
    """Characters of a parameter; MLflow's limit."""

    def __init__(self, run: TrackedRun) -> None:
        """Start it, or continue it. MLflow has no entities."""
        # By default it tries an absent server for minutes, in which no rank makes progress.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        self._entities = importlib.import_module("mlflow.entities")
        self._client = importlib.import_module("mlflow").MlflowClient()
        if run.id is not None:
            self.id = run.id
            self._client.update_run(run.id, status="RUNNING")
            return
        name = run.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.folder.parent.name
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        made = self._client.create_run(
            experiment, run_name=run.folder.name, tags={"log_dir": str(run.folder)}
        )
        self.id = str(made.info.run_id)
        params = [
            self._entities.Param(_mlflow_name(key), str(value)[: self.LONGEST])
            for key, value in _flat(run.config)
        ]
        for first in range(0, len(params), self.MOST_PARAMS):
            self._client.log_batch(self.id, params=params[first : first + self.MOST_PARAMS])

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self._entities.Metric(_mlflow_name(tag), value, now, iteration)
            for tag, value in values.items()
        ]
        self._client.log_batch(self.id, metrics=metrics)

    def close(self) -> None:
        self._client.set_terminated(self.id)


class TrackioRun:
    """A run of Trackio, new or continued. The step is the iteration.

    It is kept on this machine, in ``TRACKIO_DIR``; ``TRACKIO_SPACE_ID`` names a Hugging Face space
    to keep it in. Trackio identifies a run by its name, which is that of the run directory.
    """

    def __init__(self, run: TrackedRun) -> None:
        """Start it, or continue it. Trackio has no entities."""
        self._trackio = importlib.import_module("trackio")
        self.id = run.id or run.folder.name
        self._trackio.init(
            project=run.project or os.environ.get("TRACKIO_PROJECT") or run.folder.parent.name,
            name=self.id,
            resume="allow",
            config=dict(_flat(run.config)),
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        self._trackio.log(dict(values), step=iteration)

    def close(self) -> None:
        self._trackio.finish()


TRACKERS = {"wandb": WandbRun, "mlflow": MlflowRun, "trackio": TrackioRun}
"""Values of ``--logger`` other than ``tensorboard``."""


def advice(name: str, error: Exception) -> str:
    """Return what to do about a tracker that cannot be opened."""
    if isinstance(error, ModuleNotFoundError):
        return f"Install it with: pip install {name}"
    return {
        "wandb": "Log in with 'wandb login' or WANDB_API_KEY, or set WANDB_MODE=offline.",
        "mlflow": "Set MLFLOW_TRACKING_URI to a server that runs, or to sqlite:///mlflow.db.",
        "trackio": "Set TRACKIO_DIR to a folder that you may write to, and leave TRACKIO_SPACE_ID "
        "out where there is no network.",
    }[name]


def _mlflow_name(tag: str) -> str:
    """Return a tag with only the characters that MLflow accepts in a name."""
    return re.sub(r"[^\w\-. :/]", "_", tag)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values by their dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


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
        name: ``tensorboard``, or one of :data:`~envlab.training.curves.TRACKERS`.
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
