"""Results of runs that left only TensorBoard's event files: legged_gym's, and others'."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from envlab.run.event_file import read_events

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
