"""Results of an experiment: a table of its trials, and graphs."""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState
from tabulate import tabulate

from envlab.errors import ConfigurationError, EnvlabError
from envlab.run.commands import typed
from envlab.run.manifest import finite, read_manifest, write_json
from envlab_populations.hogwild.experiment import Experiment
from envlab_populations.hogwild.figures import trial_figures
from envlab_populations.hogwild.graphs import draw_experiment, draw_trials, read_curves
from envlab_populations.hogwild.search import Search

logger = logging.getLogger(f"envlab.{__name__}")

FIGURES = (
    *("final_strength", "max_strength", "strength", "sample_efficiency", "training_efficiency"),
    *("stability", "consistency", "total_reward_ma"),
)
"""SLM-Lab's columns after those of the searched values."""


class SearchFailedError(EnvlabError):
    """No trial of an experiment has a result."""

    exit_code = 1


def write_results(experiment: Experiment) -> list[dict[str, Any]]:
    """Write an experiment's table and graphs into its directory; return the table, best first."""
    directory, search = experiment.directory, experiment.search
    rows = [_row(directory, trial, search) for trial in experiment.study.trials]
    rows.sort(key=lambda row: _or_least(row["total_reward_ma"]), reverse=True)
    with (directory / "experiment_df.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _cell(value) for key, value in row.items()})
    write_json(directory / "trial_data_dict.json", {row["trial"]: finite(row) for row in rows})
    try:
        _draw(experiment, [row for row in rows if row["total_reward_ma"] is not None])
    except ConfigurationError as error:
        logger.warning("The experiment has no graphs. %s", error)
    return rows


def _draw(experiment: Experiment, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    directory, search = experiment.directory, experiment.search
    title = f"{search.spec.name}, {len(rows)} trials"
    draw_experiment(directory / "experiment_graph.png", title, rows, list(search.ranges))
    numbers = sorted(row["trial"] for row in rows)
    draw_trials([directory / "trials" / str(number) for number in numbers], directory)


def print_results(rows: Sequence[dict[str, Any]], experiment: Experiment, spec: str) -> None:
    """Print an experiment's table, and the commands for its best trial.

    Args:
        rows: See :func:`write_results`.
        experiment: The experiment.
        spec: The spec file.

    Raises:
        SearchFailedError: If no trial has a result.
    """
    search, place = experiment.search, os.path.relpath(experiment.directory)
    names = ("trial", *search.ranges, "total_reward_ma", "frame", "state")
    print(tabulate([[row[name] for name in names] for row in rows], headers=names))
    print(f"Experiment: {place}")
    if rows[0]["total_reward_ma"] is None:
        raise SearchFailedError(f"No trial has a return; {place}/trials/*.txt say why.")
    number = rows[0]["trial"]
    settings = search.settings(experiment.study.trials[number].params)
    words = ["envlab", "lab", "run", spec, search.spec.name]
    best = [*words, "train", *(f"-s{setting}" for setting in settings)]
    print("Train with the best values:", typed(best))
    print("Play it:", typed([*words, f"enjoy@{place}/trials/{number}"]))


def _row(directory: Path, one: optuna.trial.FrozenTrial, search: Search) -> dict[str, Any]:
    """Return a trial's row; figures are None if it has no points."""
    folder = directory / "trials" / str(one.number)
    row: dict[str, Any] = {"trial": one.number, **search.decoded(one.params)}
    row |= {"frame": one.last_step or 0, **dict.fromkeys(FIGURES)}
    try:
        manifest = read_manifest(folder)
        curves = list(read_curves(folder, manifest).values())
        figures = trial_figures(curves, float(manifest.get("random_baseline") or 0.0))
        row |= {name: figures[name] for name in FIGURES}
    except (EnvlabError, OSError) as error:  # it may have failed before an episode had ended
        logger.info("Trial %d has no figures: %s", one.number, error)
    state = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}
    return row | {"state": state.get(one.state, one.state.name.lower())}


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _or_least(value: Any) -> float:
    return float("-inf") if value is None else float(value)
