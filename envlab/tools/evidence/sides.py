"""The records of an experiment, read back: a side for each contender."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from envlab.errors import ConfigurationError
from envlab.run.compare.groups import Group
from envlab.run.compare.results import find_results
from envlab.tools.evidence.experiment import PLAYED, Contender, Experiment
from envlab.tools.evidence.runner import NUM_POINTS, physics

NUM_LAST = NUM_POINTS // 10
"""Last points of a recorded curve, a tenth of a long one; their mean is compared if no episodes are
played."""


@dataclass(kw_only=True)
class Side:
    """Contents of a contender's records."""

    contender: Contender
    group: Group
    final: np.ndarray
    """The compared value of each run: that of played episodes, or of the metric's last tenth."""
    places: set[str]
    """Where episodes were played, as far as their records say."""


def sides_of(experiment: Experiment, records: Path) -> list[Side]:
    """Read the records of an experiment; contenders without any are omitted."""
    sides = []
    for contender in experiment.contenders:
        folder = records / experiment.name / contender.name
        if next(folder.glob("*/run.json"), None) is None:
            continue
        runs = find_results([str(folder)], experiment.metric)
        runs.sort(key=lambda run: int(run.manifest["seed"]))
        played = []
        if experiment.episodes:
            played = [json.loads((run.directory / PLAYED).read_text()) for run in runs]
            final = np.array([experiment.measured(values) for values in played])
        else:
            final = np.array([run.values[run.has_value][-NUM_LAST:].mean() for run in runs])
        group = Group(label=contender.name, keys={}, runs=runs)
        places = {values["place"] for values in played if "place" in values}
        sides.append(Side(contender=contender, group=group, final=final, places=places))
    return sides


def physics_of(experiment: Experiment, sides: Sequence[Side]) -> str:
    """Return the physics that all runs of an experiment have.

    Raises:
        ConfigurationError: If they differ, so that contenders cannot be compared.
    """
    runs = [(side.contender.name, run) for side in sides for run in side.group.runs]
    found = {physics(experiment.task, run.manifest): name for name, run in runs}
    if len(found) > 1:
        texts = ", ".join(f"{engine} ({name})" for engine, name in found.items())
        raise ConfigurationError(
            f"The records of {experiment.name!r} have different physics: {texts}. Contenders must "
            "have the same: run the others again with it, or give them a separate experiment."
        )
    return next(iter(found))
