"""The picture of ``envlab compare``: a metric against frames and against wall time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab.foreign import printable
from envlab.run.compare.groups import Group
from envlab.run.compare.statistics import CONFIDENCE, SeedCurve, over_seeds, require

DEFAULT_PATH = "compare.png"
SUFFIXES = (".png", ".pdf", ".svg")
X_LABELS = {"frames": "frames of all environments", "wall_s": "wall time (s)"}
UNITS = {
    "mean_episode_length": "steps",
    "fps": "frames/s",
    "wall_s": "s",
    "collect_s": "s",
    "learn_s": "s",
}
_LINE_STYLES = ("-", "--", ":", "-.")
_LEGEND_CHARACTERS = 150
"""How many fit side by side below the axes, marks and gaps included."""


def choose_path(output: str | None, *, force: bool) -> Path:
    """Return where to write. An existing file keeps its name, and this one gets a number.

    Args:
        output: The user's choice. None: :data:`DEFAULT_PATH`.
        force: Overwrite an existing file.

    Raises:
        ConfigurationError: If the suffix or the folder is wrong.
    """
    path = Path(output or DEFAULT_PATH)
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigurationError(
            f"--output is {str(path)!r}, but must end with one of {', '.join(SUFFIXES)}."
        )
    if not path.parent.is_dir():
        raise ConfigurationError(
            f"--output is {str(path)!r}, but there is no folder {str(path.parent)!r}. Make it, or "
            "name another."
        )
    number, free = 0, path
    while not force and free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}_{number}")
    return free


def draw(groups: Sequence[Group], metric: str, task: str) -> Any:
    """Return the ``matplotlib.figure.Figure``: two axes, one line per group in each.

    An axis over which no group's runs share a range is left out, unless both are.

    Raises:
        ConfigurationError: If matplotlib is not installed.
    """
    # Without pyplot, a figure needs no display and leaves no state behind.
    module = require("matplotlib.figure", "The picture")
    figure = module.Figure(figsize=(11, 5), layout="constrained")
    curves = {name: [_curve(group, name) for group in groups] for name in X_LABELS}
    shown = [name for name in X_LABELS if any(curves[name])] or list(X_LABELS)
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    cycler = require("matplotlib").cycler
    colours = require("matplotlib").rcParams["axes.prop_cycle"]
    for axis, x_name in zip(axes, shown, strict=True):
        axis.set_prop_cycle(cycler(linestyle=_LINE_STYLES) * colours)
        for group, curve in zip(groups, curves[x_name], strict=True):
            _draw_curve(axis, curve, group.label)
        axis.set_xlabel(X_LABELS[x_name])
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    if shown[0] == "frames":
        axes[0].xaxis.set_major_formatter(require("matplotlib.ticker").EngFormatter(sep=""))
    axes[0].set_ylabel(_metric_label(metric))
    figure.suptitle(printable(task), parse_math=False)
    labels = [_legend_label(group) for group in groups]
    columns = max(1, _LEGEND_CHARACTERS // (max(map(len, labels)) + 8))
    handles = axes[0].get_lines()
    title = f"Interquartile mean over runs and its {CONFIDENCE:.0%} bootstrap interval"
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(columns, len(groups)),
        frameon=False,
        title=title if any(len(group.runs) > 1 for group in groups) else None,
    )
    for text in legend.get_texts():  # a dollar sign is literal
        text.set_parse_math(False)
    return figure


def write(figure: Any, path: Path) -> None:
    """Write a figure, in the format of the path's suffix.

    Raises:
        ConfigurationError: If the file cannot be written.
    """
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigurationError(
            f"The picture {path} cannot be written ({error.strerror}). Name another place with "
            "--output."
        ) from error


def _curve(group: Group, x_name: str) -> SeedCurve | None:
    return over_seeds(
        [getattr(run, x_name)[run.has_value] for run in group.runs],
        [run.values[run.has_value] for run in group.runs],
    )


def _draw_curve(axis: Any, curve: SeedCurve | None, label: str) -> None:
    """Draw a group's interval and its line, which is empty if its runs share no range."""
    x, middle = (np.array([]),) * 2 if curve is None else (curve.x, curve.middle)
    (line,) = axis.plot(x, middle, label=label, marker="o" if len(x) == 1 else None)
    if curve is not None and curve.interval is not None:
        axis.fill_between(x, *curve.interval, color=line.get_color(), alpha=0.2, linewidth=0)


def _metric_label(metric: str) -> str:
    words = metric.removesuffix("_s").replace("_", " ") if metric in UNITS else metric
    words = words.replace("_", " ") if "." not in words else words
    return f"{words} ({UNITS[metric]})" if metric in UNITS else words


def _legend_label(group: Group) -> str:
    return f"{printable(group.label)} ({len(group.runs)} run{'s' if len(group.runs) > 1 else ''})"
