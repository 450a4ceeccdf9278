"""The members' parents, changes and fitness: as data, as a table, as curves.

A generation is a dictionary: ``generation`` (counted from 1), ``frames`` (environment steps of all
processes and members so far), ``elite`` (index of the fittest) and ``members``, each with
``index``, ``parent`` (null: none), ``mutation``, ``hyperparameters`` by name, ``fitness`` (NaN:
unknown) and ``frames``. ``copied`` marks one that took its place at the last meeting, where it may
have kept the index; if networks change, ``architecture`` describes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from envlab.distributed.disk import surviving_disk_errors, whole_file
from envlab.run.manifest import finite
from envlab_populations.population.member import Member
from envlab_populations.population.ranges import label

FILE = "lineage.json"
"""File in a run's directory with a list of generations."""


def record_of(
    members: Sequence[Member], fittest: int, generation: int, frames: int
) -> dict[str, Any]:
    """Return a generation of members, the place of whose fittest is given."""
    names = members[0].genes.hyperparameters
    labels = {name: label(name, [*names]) for name in names}
    rows = []
    for one in members:
        shape = one.genes.architecture
        rows.append(
            {
                **{key: getattr(one, key) for key in ("index", "parent", "copied", "mutation")},
                **({} if shape is None else {"architecture": str(shape)}),
                "hyperparameters": {labels[k]: v for k, v in one.genes.hyperparameters.items()},
                "fitness": one.fitness[-1],
                "frames": one.frames,
            }
        )
    elite = members[fittest].index
    return {"generation": generation, "frames": frames, "elite": elite, "members": rows}


def scalars(record: Mapping[str, Any]) -> dict[str, float | None]:
    """Return a generation's fitness and hyper-parameters by place, for curves."""
    members = record["members"]
    scores = [member["fitness"] for member in members if not math.isnan(member["fitness"])]
    values: dict[str, float | None] = {
        "Population/best_fitness": max(scores, default=None),
        "Population/mean_fitness": sum(scores) / len(scores) if scores else None,
    }
    for place, member in enumerate(members):
        told = {"fitness": member["fitness"], **member["hyperparameters"]}
        values |= {f"Member {place}/{name}": value for name, value in told.items()}
    return values


def table(record: Mapping[str, Any], fps: float) -> str:
    """Return a generation as a table for a terminal, the fittest marked, and frames per second."""
    has_networks = "architecture" in record["members"][0]
    rows = [
        [
            f"{member['index']}{' *' if member['index'] == record['elite'] else ''}",
            "" if member["parent"] is None else member["parent"],
            member["mutation"],
            *([member["architecture"]] if has_networks else []),
            *(f"{value:.3g}" for value in member["hyperparameters"].values()),
            f"{member['fitness']:.2f}",
        ]
        for member in record["members"]
    ]
    names = list(record["members"][0]["hyperparameters"])
    networks = ["network"] if has_networks else []
    headers = ["member", "parent", "mutation", *networks, *names, "fitness"]
    title = f"Generation {record['generation']}, {record['frames']:,} frames, {fps:,.0f} frames/s"
    body = tabulate(rows, headers, disable_numparse=True, colalign=["right", "right"])
    return f"{title}\n{body}"


def write(records: Sequence[Mapping[str, Any]], directory: Path) -> None:
    """Write all generations into a run's directory; the run continues if that fails."""
    path = directory / FILE
    what = f"{path} could not be written"
    with surviving_disk_errors(path, what, "The run continues."), whole_file(path) as file:
        file.write(json.dumps(finite(list(records))).encode())
