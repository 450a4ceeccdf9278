"""Who came from whom, with what change, and how fit it was: as data, and as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from envlab.distributed.disk import surviving_disk_errors, whole_file
from envlab.rl.evolution.member import Member

FILE = "lineage.json"
"""In a run's directory: a list of generations, see :func:`generation_record`."""


def generation_record(
    members: Sequence[Member], *, generation: int, frames: int, elite: int
) -> dict[str, Any]:
    """Return what is told of an evaluated generation.

    Args:
        members: Evaluated, and not yet mutated.
        generation: Counted from 1.
        frames: Environment steps of all processes and members so far.
        elite: Index of the fittest.
    """
    return {
        "generation": generation,
        "frames": frames,
        "elite": elite,
        "members": [
            {
                "index": member.index,
                "parent": member.parent,
                "mutation": member.mutation,
                "architecture": str(member.genes.architecture),
                "hyperparameters": dict(member.genes.hyperparameters),
                "fitness": member.fitness[-1],
                "frames": member.frames,
            }
            for member in members
        ],
    }


def table(record: dict[str, Any], fps: float) -> str:
    """Return a generation as a table for a terminal, the fittest marked, and frames per second."""
    rows = [
        [
            f"{member['index']}{' *' if member['index'] == record['elite'] else ''}",
            "" if member["parent"] is None else member["parent"],
            member["mutation"],
            member["architecture"],
            *(f"{value:.3g}" for value in member["hyperparameters"].values()),
            f"{member['fitness']:.2f}",
        ]
        for member in record["members"]
    ]
    names = list(record["members"][0]["hyperparameters"])
    headers = ["member", "parent", "mutation", "network", *names, "fitness"]
    title = f"Generation {record['generation']}, {record['frames']:,} frames, {fps:,.0f} frames/s"
    body = tabulate(rows, headers, disable_numparse=True, colalign=["right", "right"])
    return f"{title}\n{body}"


def write(records: Sequence[dict[str, Any]], directory: Path) -> None:
    """Write all generations into a run's directory; the run goes on if that fails."""
    path = directory / FILE
    what = f"{path} could not be written"
    with surviving_disk_errors(path, what, "The run goes on."), whole_file(path) as file:
        file.write(json.dumps(list(records)).encode())
