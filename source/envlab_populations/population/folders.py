"""A folder for each member in the run directory, with the files of a complete run.

``members/<index>/`` holds ``run.json``, ``metrics.jsonl`` and event files, so that ``envlab
compare`` and TensorBoard read members as they read runs. Rank 0 writes them all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.distributed.disk import RecordFile, surviving_disk_errors
from envlab.learner import Curve
from envlab.run.directory import EVENTS_TAG
from envlab.run.event_file import EventFile, cut_events
from envlab.run.manifest import now, write_json
from envlab.run.records import METRICS, cut_metrics, line_of
from envlab.training.curves import Curves
from envlab.training.loop import OWN_SCALARS
from envlab_populations.population.seat import Report


class MemberFolders:
    """The folders of all members."""

    def __init__(self, run: Path, facts: Mapping[str, Any], reports: Mapping[int, Report]) -> None:
        """Make them, or continue in them if the run continues.

        Args:
            run: The run directory.
            facts: Facts in all members' manifests.
            reports: Reports of the next iteration; records of it and later ones are removed.
        """
        self._files = {}
        for index, report in reports.items():
            folder = run / "members" / f"{index:02}"
            with surviving_disk_errors(folder, f"{folder} could not be made", "The run continues."):
                folder.mkdir(parents=True, exist_ok=True)
                cut_metrics(folder, report.record.iteration - 1)
                cut_events(folder, EVENTS_TAG, report.record.frames - report.iteration.frames)
                if not (folder / "run.json").exists():
                    told = {**facts, "member": index, "created_at": now()}
                    write_json(folder / "run.json", told)
                records = RecordFile(folder / METRICS, f"member {index}'s metrics")
                self._files[index] = (records, Curves(EventFile(folder)))

    def write(self, reports: Mapping[int, Report]) -> None:
        """Append an iteration of each member."""
        for index, (records, curves) in self._files.items():
            record = reports[index].record
            records.append(line_of(dataclasses.asdict(record)))
            own = {f"envlab/{name}": getattr(record, name) for name in OWN_SCALARS}
            for curve in (Curve(record.frames, own | record.episode), *reports[index].curves):
                curves.add(curve.step, curve.scalars)
            curves.close()  # writes the waiting values
