"""``envlab compare``: a table and a picture of runs of any library, over seeds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError
from envlab.foreign import printable
from envlab.run.compare.groups import FORMATS, group_runs, note_lines, summarise
from envlab.run.compare.picture import choose_path, draw, write
from envlab.run.compare.results import (
    RunResult,
    check_one_task,
    find_results,
    join_resumed,
    with_values,
)


def main(arguments: Sequence[str]) -> int:
    """Print the table, draw the picture, and return 0.

    Raises:
        EnvlabError: If there is nothing to compare, or a package is missing.
    """
    flags = _parse(arguments)
    picture = None if flags.no_plot else choose_path(flags.output, force=flags.force)
    found = find_results(flags.runs, flags.metric)
    task = check_one_task(found)
    joined = join_resumed(found)
    runs = with_values(joined, flags.metric)
    groups = group_runs(runs, flags.by.split(",") if flags.by else None)
    rows = [summarise(group) for group in groups]
    notes = [*_left_out(joined, flags.metric), *note_lines(groups)]
    print(printable(FORMATS[flags.format](rows, notes, flags.metric)))
    if picture is not None:
        write(draw(groups, flags.metric, task), picture)
        # A table for a page or a script has standard output to itself.
        print(f"Picture: {picture}", file=sys.stdout if flags.format == "text" else sys.stderr)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = ArgumentParser(
        prog="envlab compare",
        description="Compare runs of one task, over seeds, libraries and numbers of processes.",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run directory, folder that contains runs, pattern"
    )
    parser.add_argument(
        "--metric",
        default="mean_return",
        help="field of metrics.jsonl, as fps or losses.value; or of what 'envlab validate' "
        "or 'envlab play' wrote, as validation.success, test.spl or evaluation.return (default: "
        "mean_return)",
    )
    parser.add_argument(
        "--by",
        metavar="KEY[,KEY]",
        help="keys of run.json or params/*.yaml that runs of a group agree in, as library,"
        "agent.algorithm.learning_rate (default: library, algorithm, framework and sizes)",
    )
    parser.add_argument(
        "--format", choices=tuple(FORMATS), default="text", help="of the table (default: text)"
    )
    parser.add_argument(
        "--output", metavar="PATH", help="picture: .png, .pdf or .svg (default: compare.png)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the picture")
    parser.add_argument("--no_plot", action="store_true", help="only the table")
    flags = parser.parse_args(list(arguments))
    if flags.no_plot and (flags.output or flags.force):
        name = "--output" if flags.output else "--force"
        raise ConfigurationError(f"{name} has no effect with --no_plot. Leave one of them out.")
    return flags


def _left_out(runs: Sequence[RunResult], metric: str) -> list[str]:
    return [
        f"{run.directory} has no value of {metric}; omitted."
        for run in runs
        if not run.has_value.any()
    ]
