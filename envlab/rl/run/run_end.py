"""What is left in a run directory when the watchdog ends the job: a report, and a final status."""

from __future__ import annotations

import logging
from pathlib import Path

from envlab.errors import RunDirectoryError
from envlab.rl.run.manifest import now, read_manifest, write_json

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
    for record in (
        lambda: _end_manifest(directory, sentence),  # first: the report may be of any size
        lambda: _write_report(directory, report),
    ):
        try:
            record()
        except (OSError, RunDirectoryError) as error:
            logger.warning("The end cannot be recorded in %s (%s).", directory, error)


def _end_manifest(directory: Path, sentence: str) -> None:
    manifest = read_manifest(directory)
    if manifest["status"] == "running":
        manifest |= {"status": "failed", "error": sentence, "updated_at": now()}
        write_json(directory / "run.json", manifest)


def _write_report(directory: Path, report: str) -> None:
    """Write it whatever the locale and the characters in the sources that the stacks quote."""
    text = f"{now()}\n{report}\n"
    (directory / REPORT).write_text(text, encoding="utf-8", errors="backslashreplace")
