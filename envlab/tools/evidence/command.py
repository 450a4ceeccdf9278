"""``envlab evidence``: run experiments over seeds, and write the page of their results."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError
from envlab.interrupts import ending_in_order
from envlab.tools.evidence.experiment import FOLDER, RECORDS, Experiment, names, read
from envlab.tools.evidence.page import PAGE, PICTURES, draw_pictures, page
from envlab.tools.evidence.runner import check_seeds, own_cores, remaining, run

LOGS = Path("logs/evidence")


def main(arguments: Sequence[str]) -> int:
    """Run the command of the first word, and return 0.

    Raises:
        EnvlabError: If there is no such experiment, or a run of it fails.
    """
    flags = _parse(arguments)
    if flags.verb == "run":
        experiment = read(flags.name or "", flags.folder)
        check_seeds(experiment, flags.records)
        seeds = experiment.seeds if flags.seeds is None else flags.seeds
        frames = experiment.frames if flags.frames is None else int(flags.frames)
        for name, value in (("seeds", seeds), ("frames", frames)):
            if value < 1:
                raise ConfigurationError(f"--{name} is {value}, but must be 1 or more.")
        if seeds > experiment.seeds:
            raise ConfigurationError(
                f"--seeds is {seeds}, but {experiment.name!r} has {experiment.seeds}. Raise "
                "'seeds' in its file instead, with 'first_seeds' if it has records."
            )
        _run(replace(experiment, frames=frames), seeds, flags)
        return 0
    experiments = [read(name, flags.folder) for name in names(flags.folder)]
    if flags.verb == "list":
        for experiment in experiments:
            total = experiment.seeds * len(experiment.contenders)
            done = total - len(remaining(experiment, flags.records))
            print(f"{experiment.name}: {done} of {total} runs have a record")
            print(f"    {experiment.claim}")
        return 0
    PAGE.write_text(page(experiments, flags.records))
    pictures = draw_pictures(experiments, flags.records, PICTURES)
    print(f"Wrote {PAGE} and {len(pictures)} pictures.")
    return 0


def _run(experiment: Experiment, seeds: int, flags: argparse.Namespace) -> None:
    """Make the runs of the first seeds that have no record yet."""
    runs = [run for run in remaining(experiment, flags.records) if run[1] < seeds]
    hours = len(runs) * experiment.minutes / 60.0
    print(f"{experiment.name}: runs to make: {len(runs)}, about {hours:.1f} h in all.")
    places = {"programs": flags.folder, "logs": flags.logs, "records": flags.records}
    with ending_in_order(), own_cores(flags.core, experiment.cores):
        for number, (contender, seed) in enumerate(runs, start=1):
            print(f"{number} of {len(runs)}: {contender.name}, seed {seed}", flush=True)
            run(experiment, contender, seed, **places)
    print(f"All runs of {experiment.name} have a record. The page: envlab evidence page")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = ArgumentParser(
        prog="envlab evidence", description="Experiments over seeds, and the page of all of them."
    )
    parser.add_argument("verb", choices=("list", "run", "page"), help="what to do")
    parser.add_argument("name", nargs="?", help="the experiment to run")
    parser.add_argument("--seeds", type=int, help="runs of each contender (default: the file's)")
    parser.add_argument("--frames", type=float, help="of each run (default: the file's)")
    parser.add_argument("--core", type=int, help="first core of a run (default: the last ones)")
    for name, default, help_text in (
        ("folder", FOLDER, "of experiments"),
        ("records", RECORDS, "of records"),
        ("logs", LOGS, "of runs"),
    ):
        parser.add_argument(
            f"--{name}", type=Path, default=default, help=f"{help_text} (default: {default})"
        )
    return parser.parse_args(list(arguments))
