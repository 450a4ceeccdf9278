"""``envlab lineage``: descent of the members of a population, as text and as a picture."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError, RunDirectoryError
from envlab.foreign import parse_json, printable, read_text
from envlab.run.compare.picture import choose_path, write
from envlab.run.compare.statistics import require

FILE = "lineage.json"
DEFAULT_PATH = "lineage.png"
_LOG_RATIO = 5.0
"""Hyper-parameters whose values differ by a larger factor are drawn on a logarithmic axis."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A member at an evaluation."""

    generation: int
    frames: float
    index: int
    parent: int | None
    mutation: str
    fitness: float
    """NaN: unknown."""
    copied: bool
    """Whether it kept its index, but became its parent's copy since the last generation."""
    hyperparameters: dict[str, float]


def main(arguments: Sequence[str]) -> int:
    """Print the descent of the fittest, draw the picture, and return 0.

    Raises:
        EnvlabError: If there is no population, or matplotlib is missing.
    """
    parser = ArgumentParser(
        prog="envlab lineage",
        description="Draw the generations of a population, from parents to children.",
    )
    parser.add_argument("run", metavar="RUN", help="run directory of a population")
    parser.add_argument(
        "--output", metavar="PATH", help=f"picture: .png, .pdf or .svg (default: {DEFAULT_PATH})"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the picture")
    flags = parser.parse_args(list(arguments))
    picture = choose_path(flags.output or DEFAULT_PATH, force=flags.force)
    generations = read(Path(flags.run))
    descent = descent_of_fittest(generations)
    print(f"Descent of the fittest of {len(generations)} generations:")
    for point in descent:
        text = f"  generation {point.generation}: member {point.index}, {point.mutation}"
        print(printable(f"{text}, fitness {point.fitness:.2f}"))
    write(draw(generations, descent), picture)
    print(f"Picture: {picture}")
    return 0


def read(run: Path) -> list[list[Point]]:
    """Return the members of each generation of a run.

    Raises:
        RunDirectoryError: If there are none, or they cannot be read.
    """
    path = run / FILE
    if not path.is_file():
        raise RunDirectoryError(
            f"There is no {path}. Give the run directory of a population, which has one from its "
            "first generation on."
        )
    try:
        return [
            [
                Point(
                    generation=int(one["generation"]),
                    frames=_finite(one["frames"]),
                    index=int(member["index"]),
                    parent=None if member["parent"] is None else int(member["parent"]),
                    mutation=str(member["mutation"]),
                    fitness=math.nan if member["fitness"] is None else float(member["fitness"]),
                    copied=bool(member.get("copied", False)),
                    hyperparameters={
                        str(name): _finite(value)
                        for name, value in member["hyperparameters"].items()
                    },
                )
                for member in one["members"]
            ]
            for one in parse_json(read_text(path))
        ]
    except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise RunDirectoryError(
            f"{path} holds no lineage ({type(error).__name__}: {error}). Give another run."
        ) from error


def _finite(value: Any) -> float:
    """Return a number that can be drawn; raise ValueError for infinity and NaN."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def came_from(point: Point, before: Sequence[Point]) -> Point | None:
    """Return the origin of a member a generation earlier: itself if it existed, or its parent."""
    by_index = {one.index: one for one in before}
    if point.index in by_index and not point.copied:
        return by_index[point.index]
    return None if point.parent is None else by_index.get(point.parent)


def descent_of_fittest(generations: Sequence[Sequence[Point]]) -> list[Point]:
    """Return the fittest of the last generation and its ancestors, the oldest first."""
    if not generations:
        return []
    line = [max(generations[-1], key=_score)]
    for before in reversed(generations[:-1]):
        ancestor = came_from(line[-1], before)
        if ancestor is None:
            break
        line.append(ancestor)
    return line[::-1]


def _score(point: Point) -> float:
    return -math.inf if math.isnan(point.fitness) else point.fitness


def draw(generations: Sequence[Sequence[Point]], descent: Sequence[Point]) -> Any:
    """Return the ``matplotlib.figure.Figure``: fitness, and the changed hyper-parameters.

    A line connects each member to its origin; those of the fittest are thick, and labelled with
    their mutations.

    Raises:
        ConfigurationError: If matplotlib is not installed, or there is nothing to draw.
    """
    if not generations or not generations[0]:
        raise ConfigurationError("The population has no generation yet. Draw it after the first.")
    points = [point for now in generations for point in now]
    names = [
        name
        for name in generations[0][0].hyperparameters
        if len({point.hyperparameters.get(name) for point in points}) > 1
    ]
    figure = require("matplotlib.figure", "The picture").Figure(
        figsize=(10, 3.5 + 2.2 * len(names)), layout="constrained"
    )
    heights = [1.6, *[1.0] * len(names)]
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)
    for axis, name in zip(axes[:, 0], ["fitness", *names], strict=True):
        _draw_lines(axis, generations, descent, name)
        axis.set_ylabel(printable(name), parse_math=False)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("frames of all environments")
    axes[-1, 0].xaxis.set_major_formatter(require("matplotlib.ticker").EngFormatter(sep=""))
    _name_mutations(axes[0, 0], descent)
    figure.suptitle("Lines lead from parents to children, the thick one to the fittest", fontsize=9)
    figure.align_ylabels()
    return figure


def _draw_lines(
    axis: Any, generations: Sequence[Sequence[Point]], descent: Sequence[Point], name: str
) -> None:
    def height(point: Point) -> float:
        return point.fitness if name == "fitness" else point.hyperparameters.get(name, float("nan"))

    line = {(point.generation, point.index) for point in descent}
    for before, now in zip([[], *generations], generations, strict=False):
        for point in now:
            is_of_line = (point.generation, point.index) in line
            style: dict[str, Any] = {"color": "C0" if is_of_line else "0.65"}
            style |= {"zorder": 3 if is_of_line else 2}
            ancestor = came_from(point, before)
            if ancestor is not None:
                x, y = [ancestor.frames, point.frames], [height(ancestor), height(point)]
                axis.plot(x, y, linewidth=2.2 if is_of_line else 0.8, **style)
            axis.plot(point.frames, height(point), "o", markersize=4, **style)
    heights = [height(point) for now in generations for point in now]
    axis.ticklabel_format(axis="y", scilimits=(-2, 4))
    if name != "fitness" and min(heights) > 0 and max(heights) / min(heights) > _LOG_RATIO:
        axis.set_yscale("log")


def _name_mutations(axis: Any, descent: Sequence[Point]) -> None:
    """Label each new member of a descent with its differences from its parent."""
    for before, now in itertools.pairwise(descent):
        if now.index != before.index and now.mutation != "none":
            axis.annotate(
                printable(now.mutation),
                (now.frames, 1.01),
                xycoords=axis.get_xaxis_transform(),
                rotation=40,
                rotation_mode="anchor",
                fontsize=7,
                color="C0",
                parse_math=False,
            )
