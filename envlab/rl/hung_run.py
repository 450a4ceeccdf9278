"""What is left in a run directory when the watchdog ends the job: a report, and a final status."""

from __future__ import annotations

import logging
from pathlib import Path

from envlab.errors import RunDirectoryError
from envlab.rl.manifest import now, read_manifest, write_json

logger = logging.getLogger(__name__)

REPORT = "stall.txt"


def record_end(directory: Path, sentence: str, report: str) -> None:
    """Write the watchdog's report, and in the manifest that the run failed and why.

    Any rank may do it, in place of a rank 0 that cannot; one that cannot see the directory, on
    another node, leaves it. A manifest that tells of an end already keeps it.

    Args:
        directory: The run directory.
        sentence: What happened.
        report: The whole report, with stacks.
    """
    if not directory.is_dir():
        return
    try:
        (directory / REPORT).write_text(f"{now()}\n{report}\n")
        manifest = read_manifest(directory)
        if manifest["status"] == "running":
            manifest |= {"status": "failed", "error": sentence, "updated_at": now()}
            write_json(directory / "run.json", manifest)
    except (OSError, RunDirectoryError) as error:
        logger.warning("The end cannot be recorded in %s (%s).", directory, error)
