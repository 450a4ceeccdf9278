"""Results of runs of any library: found, read, and joined where one run continues another.

Runs of others, such as legged_gym's, left only TensorBoard's event files.
"""

from __future__ import annotations

import glob
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError, RunDirectoryError, did_you_mean
from envlab.run.event_file import read_events
from envlab.run.manifest import is_copy, read_manifest
from envlab.run.records import METRICS, Records, dotted_names, number_at, read_evaluations

PATTERN = "events.out.tfevents.*"
_RETURNS = {
    "Train/mean_reward": "rsl_rl",
    "rewards/step": "rl_games",
    "Reward / Total reward (mean)": "skrl",
    "rollout/ep_rew_mean": "Stable-Baselines3",
    "charts/episodic_return": "CleanRL",
}
"""The tag of the mean return -> the library that writes it."""
_RSL_RL_FPS = "Perf/total_fps"
_RSL_RL_TIMES = ("Perf/collection time", "Perf/collection_time", "Perf/learning_time")
"""Times of an iteration in s; rsl_rl 1 writes the first with a space."""
_LATEST = 1e11
"""Seconds since 1970 that no clock shows; an event this late has no place on a time axis."""
_DATED = re.compile(r"(.*[A-Za-z].*?)_\d\d-\d\d-\d\d-\d\d$")


def event_folders(place: Path) -> Iterator[Path]:
    """Yield the folders at or below a place that hold event files and belong to no run of ours."""
    folders = sorted({file.parent for file in place.rglob(PATTERN)})
    yield from (
        folder
        for folder in folders
        if not any((above / "run.json").is_file() for above in (folder, *folder.parents))
    )


def read_folder(
    folder: Path, metric: str
) -> tuple[dict[str, Any], list[tuple[float, float, float | None]], set[str]]:
    """Return as much of a manifest as is known, the metric's points, and all tags.

    Args:
        folder: The folder of the event files.
        metric: A tag, or ``mean_return`` for that of the library that wrote the files.

    Returns:
        The manifest; frames, wall time in s and value of each point; and all names.
    """
    tags: dict[str, dict[int, tuple[float, float]]] = {}
    for path in sorted(folder.glob(PATTERN)):
        for event, _ in read_events(path):
            if not 0 <= event.wall_time < _LATEST:  # also NaN
                continue
            for value in event.summary.value:
                number = value.simple_value
                if value.HasField("tensor") and value.tensor.float_val:
                    number = value.tensor.float_val[0]
                tags.setdefault(value.tag, {})[event.step] = (event.wall_time, number)
    returns = next((tag for tag in _RETURNS if tag in tags), None)
    chosen = tags.get(returns or "" if metric == "mean_return" else metric, {})
    frames = _frames_of_steps(tags)
    times = [time for points in tags.values() for time, _ in points.values()]
    first = min(times, default=0.0)
    points: list[tuple[float, float, float | None]] = [
        (float(frames.get(step, step)), time - first, value if math.isfinite(value) else None)
        for step, (time, value) in sorted(chosen.items())
    ]
    return (
        _manifest(folder, returns, first),
        points,
        set(tags) | ({"mean_return"} if returns else set()),
    )


def _frames_of_steps(tags: dict[str, dict[int, tuple[float, float]]]) -> dict[int, int]:
    """Return the frames at each iteration of rsl_rl; other libraries count steps in frames.

    Its files have neither frames nor the number of environments, only frames per second, cut to an
    integer, and the seconds over which they were measured.
    """
    rates = tags.get(_RSL_RL_FPS, {})
    if not rates:
        return {}
    seconds = [
        sum(tags[tag][step][1] for tag in _RSL_RL_TIMES if step in tags.get(tag, {}))
        for step in rates
    ]
    speeds = [value + 0.5 for _, value in rates.values()]
    in_iteration = round(float(np.median(np.multiply(speeds, seconds))))
    return {step: (step + 1) * in_iteration for step in rates}


def _manifest(folder: Path, returns: str | None, created: float) -> dict[str, Any]:
    run = folder.parent if folder.name in ("summaries", "logs") else folder
    dated = _DATED.match(run.name)
    library = _RETURNS.get(returns or "", "TensorBoard")
    return {
        "task": dated[1] if dated else run.resolve().parent.name,
        "library": f"{library} (events)",
        "created_at": np.datetime_as_string(np.datetime64(int(created), "s")),
        "status": "unknown",
    }


EVALUATION = "evaluation."
"""Prefix of what ``envlab play`` measured."""


@dataclass(kw_only=True)
class RunResult:
    """A run's manifest, and a metric per iteration."""

    directory: Path
    """The run directory, as it was given."""
    manifest: dict[str, Any]
    """Contents of ``run.json``."""
    frames: np.ndarray
    """Global environment frames, ``(num_records,)``, rising."""
    wall_s: np.ndarray
    """Wall time in seconds, ``(num_records,)``."""
    values: np.ndarray
    """The metric, ``(num_records,)``; NaN where an iteration has none."""
    names: set[str]
    """All metrics that the run recorded, dotted as in ``losses.value``."""
    cut_file: Path | None = None
    """The file whose last line is cut off, as by a kill; that line does not count."""
    continues: Path | None = None
    """The run that this run was resumed from, whose records come first here."""

    @property
    def has_value(self) -> np.ndarray:
        """Whether each record has a value of the metric, bool ``(num_records,)``."""
        return ~np.isnan(self.values)


def find_results(places: Sequence[str], metric: str) -> list[RunResult]:
    """Read each run at some places once, oldest first.

    Args:
        places: Run directories, folders that contain some at any depth, or glob patterns.
        metric: A field of :class:`envlab.learner.IterationRecord`, or dotted as in
            ``losses.value``.

    Raises:
        RunDirectoryError: If a place holds no run, or a run cannot be read.
    """
    directories: dict[Path, Path] = {}
    for place in places:
        found = list(_run_directories(place))
        if not found:
            raise RunDirectoryError(
                f"There is no run at {place!r}. Give a run directory or one with TensorBoard's "
                "event files, a folder that contains some (as logs/rsl_rl/cartpole), or a pattern "
                "in quotes ('logs/*/cartpole/*')."
            )
        directories |= {directory.resolve(): directory for directory in found}
    runs = [read_result(directory, metric) for directory in directories.values()]
    return sorted(runs, key=lambda run: (run.manifest.get("created_at") or "", run.directory))


def _run_directories(place: str) -> Iterator[Path]:
    for path in [place] if Path(place).exists() else sorted(glob.glob(place, recursive=True)):
        if (Path(path) / "run.json").is_file():
            yield Path(path)
        else:
            folders = (manifest.parent for manifest in Path(path).rglob("run.json"))
            found = sorted(folder for folder in folders if not is_copy(folder))
            # A trial's record is the mean of its sessions, which are compared only where named.
            yield from (run for run in found if not set(run.parents) & set(found))
            yield from event_folders(Path(path))


def read_result(directory: Path, metric: str) -> RunResult:
    """Read a run; one that died before its first iteration has no records.

    Raises:
        RunDirectoryError: If it is not a run directory, or its records are damaged.
    """
    points: list[tuple[float, float, float | None]] = []
    names: set[str] = set()
    cut_file = None
    if (directory / "run.json").is_file():
        manifest = _manifest_of(directory)
        name, prefix = _file_of(metric)
        records = None if prefix == EVALUATION else Records(directory / name)
        evaluated = read_evaluations(directory / "checkpoints") if records is None else {}
        for record in evaluated.values() if records is None else records.read():
            value = number_at(record, metric.removeprefix(prefix))
            points.append((record["frames"], record["wall_s"], value))
            names.update(f"{prefix}{name}" for name in dotted_names(record))
        points.sort(key=lambda point: point[0])  # validation is in the order of judging
        cut_file = records.path if records is not None and records.is_cut else None
    else:
        manifest, points, names = read_folder(directory, metric)
    frames, wall_s, values = np.array(points, dtype=float).reshape(-1, 3).T
    return RunResult(
        directory=directory,
        manifest=manifest,
        frames=frames,
        wall_s=wall_s,
        values=values,
        names=names,
        cut_file=cut_file,
    )


def _manifest_of(directory: Path) -> dict[str, Any]:
    """Return a run's manifest; that of a population's member has the population's status."""
    manifest = read_manifest(directory)
    population = directory.resolve().parent.parent
    if "member" in manifest and (population / "run.json").is_file():
        manifest["status"] = read_manifest(population).get("status")
    if manifest.get("task") is None:
        raise RunDirectoryError(
            f"{directory} is not a run directory: its run.json names no task. Leave it out."
        )
    return manifest


def _file_of(metric: str) -> tuple[str, str]:
    """Return the file that has a metric, and the prefix of the metric's name for that file."""
    if metric.startswith(EVALUATION):
        return "", EVALUATION
    for prefix in ("validation.", "test."):
        if metric.startswith(prefix):
            return f"{prefix}jsonl", prefix
    return METRICS, ""


def join_resumed(runs: Sequence[RunResult]) -> list[RunResult]:
    """Join each resumed run with the one it continues, if that is among ``runs`` too.

    Otherwise the two would count as two seeds. The earlier run's records after the checkpoint are
    dropped, as the later run repeats them.

    Args:
        runs: Oldest first.
    """
    joined = {run.directory.resolve(): run for run in runs}
    continued = set()
    for directory, run in joined.items():
        origin = next((place for place in _origins(run) if place in joined), directory)
        if origin == directory:
            continue
        earlier = joined[origin]
        keep = earlier.frames < (run.frames[0] if len(run.frames) else math.inf)
        joined[directory] = replace(
            run,
            frames=np.concatenate([earlier.frames[keep], run.frames]),
            wall_s=np.concatenate([earlier.wall_s[keep], run.wall_s]),
            values=np.concatenate([earlier.values[keep], run.values]),
            names=earlier.names | run.names,
            continues=earlier.continues or earlier.directory,
        )
        continued.add(origin)
    return [run for directory, run in joined.items() if directory not in continued]


def _origins(run: RunResult) -> list[Path]:
    """Return where the run that this run was resumed from may be: where it was, or moved along."""
    checkpoint = run.manifest.get("resumed_from")
    if not checkpoint:
        return []
    directory = Path(checkpoint).parent.parent
    logs = run.directory.resolve() / "../../.."
    return [directory.resolve(), logs.joinpath(*directory.parts[-3:]).resolve()]


def check_one_task(runs: Sequence[RunResult]) -> str:
    """Return the task of all runs.

    Raises:
        ConfigurationError: If there are several.
    """
    by_task = {run.manifest["task"]: run.directory for run in runs}
    if len(by_task) > 1:
        named = " and ".join(f"{task} ({directory})" for task, directory in by_task.items())
        raise ConfigurationError(
            f"The runs are of {len(by_task)} tasks, whose curves cannot be compared: {named}. "
            "Give runs of one task."
        )
    return next(iter(by_task))


def with_values(runs: Sequence[RunResult], metric: str) -> list[RunResult]:
    """Return the runs that have a value of the metric that was read.

    Raises:
        ConfigurationError: If no run recorded the metric.
        RunDirectoryError: If no run has a value.
    """
    kept = [run for run in runs if run.has_value.any()]
    if not kept and metric.partition(".")[0] in ("validation", "test"):
        raise RunDirectoryError(
            f"None of the runs ({len(runs)}) has a value of {metric}, which is not a training "
            f"metric. Run 'envlab validate {runs[0].directory}' first, or train with --validate."
        )
    if not kept and metric.startswith(EVALUATION) and not any(run.names for run in runs):
        raise RunDirectoryError(
            f"None of the runs ({len(runs)}) was evaluated. Play their checkpoints first: envlab "
            f"play LIBRARY --checkpoint {runs[0].directory} --num_episodes 1024."
        )
    names = {name for run in runs for name in run.names}
    if names and metric not in names:
        raise ConfigurationError(
            f"--metric is {metric!r}, which no run has recorded.{did_you_mean(metric, names)} "
            f"There are {', '.join(sorted(names))}."
        )
    if not kept:
        raise RunDirectoryError(
            f"None of the runs ({len(runs)}) has a value of {metric}: they ended before the first "
            "iteration, or before an episode did. Give runs that trained for longer."
        )
    return kept
