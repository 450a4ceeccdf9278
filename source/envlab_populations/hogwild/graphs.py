"""Graphs and figures of trials and their sessions, in a trial's directory."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab.run.manifest import finite, read_manifest, write_json
from envlab.run.records import METRICS
from envlab_populations.hogwild.figures import (
    Curve,
    aligned,
    moving_average,
    read_curve,
    session_figures,
    trial_figures,
)

_COLOURS = ("#2f6db3", "#d1603d", "#3f9b6b", "#8a5fb0", "#b58a2b", "#5a6470")


def draw_trial(directory: Path) -> list[Path]:
    """Write the graphs, points and figures of a trial and its sessions; return the files.

    Raises:
        ConfigurationError: If matplotlib is missing, or no episode has ended in a session.
    """
    manifest = read_manifest(directory)
    curves = read_curves(directory, manifest)
    baseline, written = float(manifest.get("random_baseline") or 0.0), []
    for number, curve in curves.items():
        folder = directory / "sessions" / str(number)
        written.append(_write_points(folder / "session_df_train.csv", curve, len(curves)))
        figures = session_figures(curve, baseline)
        written.append(_write_figures(folder / "session_metrics_train.json", figures))
        title = f"{manifest['task']}, session {number} of {len(curves)}"
        written += _draw_both(folder, "session_graph_train", title, [curve], len(curves))
    both = list(curves.values())
    figures = trial_figures(both, baseline) | {"random_baseline": baseline}
    written.append(_write_figures(directory / "trial_metrics.json", figures))
    title = f"{directory.parent.name} on {manifest['task']}, {len(both)} sessions"
    return [*written, *_draw_both(directory, "trial_graph", title, both, len(both))]


def draw_trials(directories: Sequence[Path], folder: Path) -> list[Path]:
    """Draw several trials over the frames of all sessions of each, into a folder."""
    pyplot = _pyplot()
    written = []
    for suffix, smooth in (("", False), ("_ma", True)):
        figure, axes = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
        for colour, directory in zip(_COLOURS * len(directories), directories, strict=False):
            curves = list(read_curves(directory, read_manifest(directory)).values())
            frames, mean, std = _envelope(curves, smooth=smooth)
            label = f"{directory.parent.name} {directory.name}"
            _band(axes, frames * len(curves), mean, std, colour, label)
        axes.set_xlabel("frames of all sessions")
        axes.set_ylabel(_ylabel(smooth))
        axes.legend(fontsize=7)
        path = folder / f"multi_trial_graph_mean_returns{suffix}_vs_frames.png"
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
        written.append(path)
    return written


def draw_experiment(
    path: Path, title: str, rows: Sequence[Mapping[str, Any]], searched: Sequence[str]
) -> None:
    """Draw trials' results over each searched value; a dot is a trial.

    Args:
        path: File to write.
        title: Title of the graph.
        rows: Trials, each with ``total_reward_ma``, ``strength`` and the searched values.
        searched: Paths of the searched values in the spec.
    """
    pyplot = _pyplot()
    figures = ("total_reward_ma", "strength")
    size = (3.2 * len(searched) + 0.8, 2.6 * len(figures) + 0.4)
    figure, grid = pyplot.subplots(
        *(len(figures), len(searched)),
        figsize=size,
        sharex="col",
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for line, name in zip(grid, figures, strict=True):
        line[0].set_ylabel(name)
        for axes, key in zip(line, searched, strict=True):
            _scatter(axes, rows, key, name)
    for axes, key in zip(grid[-1], searched, strict=True):
        axes.set_xlabel(key, fontsize=8)
    grid[0][0].legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _scatter(axes: Any, rows: Sequence[Mapping[str, Any]], key: str, name: str) -> None:
    values = [row[key] for row in rows]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        values = [str(value) for value in values]
    elif min(values) > 0 and max(values) > 20 * min(values):
        axes.set_xscale("log")
        axes.tick_params(axis="x", which="minor", labelbottom=False)
    states = {"complete": ("o", _COLOURS[0]), "pruned": ("x", _COLOURS[1])}
    for state, (marker, colour) in states.items():
        dots = [
            (x, row[name]) for x, row in zip(values, rows, strict=True) if row["state"] == state
        ]
        if dots:
            axes.scatter(*zip(*dots, strict=True), marker=marker, color=colour, label=state)
    axes.grid(alpha=0.3)


def read_curves(directory: Path, manifest: Mapping[str, Any]) -> dict[int, Curve]:
    """Return the curves of a trial's sessions by number, without empty ones.

    Raises:
        ConfigurationError: If all are empty.
    """
    log_frequency = int(manifest.get("log_frequency") or 1)
    sessions = [path.parent for path in directory.glob(f"sessions/*/{METRICS}")]
    found = {int(session.name): read_curve(session, log_frequency) for session in sessions}
    found = {number: curve for number, curve in found.items() if len(curve)}
    if not found:
        raise ConfigurationError(
            f"There is nothing to draw of {directory}: no episode has ended in a session yet."
        )
    return dict(sorted(found.items()))


def _draw_both(
    folder: Path, name: str, title: str, curves: Sequence[Curve], num_sessions: int
) -> list[Path]:
    """Draw mean returns, and their moving average."""
    pyplot = _pyplot()
    written = []
    for suffix, smooth in (("", False), ("_ma", True)):
        figure, axes = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
        frames, mean, std = _envelope(curves, smooth=smooth)
        _band(axes, frames, mean, std, _COLOURS[0], None)
        axes.set_xlabel("frames of each session")
        axes.set_ylabel(_ylabel(smooth))
        axes.set_title(title, fontsize=9)
        if num_sessions > 1:
            above = axes.secondary_xaxis(
                "top", functions=(lambda x: x * num_sessions, lambda x: x / num_sessions)
            )
            above.set_xlabel("frames of all sessions")
        path = folder / f"{name}_mean_returns{suffix}_vs_frames.png"
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
        written.append(path)
    return written


def _envelope(
    curves: Sequence[Curve], *, smooth: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return frames, and mean and standard deviation of returns over sessions."""
    same = aligned(curves)
    returns = np.stack([curve.returns for curve in same])
    if smooth:
        returns = np.stack([moving_average(row) for row in returns])
    return same[0].frames, returns.mean(axis=0), returns.std(axis=0)


def _band(
    axes: Any, x: np.ndarray, mean: np.ndarray, std: np.ndarray, colour: str, label: str | None
) -> None:
    axes.plot(x, mean, color=colour, linewidth=1.5, label=label)
    axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0.0)
    axes.grid(alpha=0.3)
    axes.ticklabel_format(axis="x", style="plain")


def _ylabel(smooth: bool) -> str:
    return "mean return, moving average over 100 points" if smooth else "mean return"


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigurationError(
            "Graphs need matplotlib. Install it with: pip install -c constraints.txt -e '.[lab]'"
        ) from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _write_points(path: Path, curve: Curve, num_sessions: int) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("frame", "global_frame", "mean_return", "mean_return_ma", "opt_step"))
        averages = moving_average(curve.returns)
        for row in zip(curve.frames, curve.returns, averages, curve.gradient_steps, strict=True):
            frame, value, average, steps = row
            writer.writerow((int(frame), int(frame) * num_sessions, value, average, int(steps)))
    return path


def _write_figures(path: Path, figures: Mapping[str, float]) -> Path:
    write_json(path, finite(dict(figures)))
    return path
