"""The code that runs here: its commit, and digests of the files of tasks and engine."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from envlab.commit import code_digests, git_state
from envlab.doctor.report import Finding
from envlab.task import ENTRY_POINT_GROUP


def examine_source() -> tuple[list[Finding], dict[str, Any]]:
    """Report the commit and digests of the files."""
    facts: dict[str, Any] = {"git": git_state(), "digests": source_digests()}
    git = facts["git"]
    if git is None:
        text = f"no git checkout: {Path(__file__).parents[2]}"
    else:
        text = f"{git['commit'][:12]}{', with changes not committed' if git['dirty'] else ''}"
    findings = [Finding("commit", text)]
    findings += [
        Finding(name, f"files with digest {digest}") for name, digest in facts["digests"].items()
    ]
    return findings, facts


def source_digests() -> dict[str, str]:
    """Return a digest of the code, models and settings of envlab, its tasks, and other suites."""
    suites = {
        entry_point.value.partition(":")[0].split(".")[0]
        for entry_point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    }
    return code_digests(suites)
