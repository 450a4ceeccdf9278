"""Which code runs here: the commit, and a digest of the files that define tasks and engine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

from envlab.commit import git_state
from envlab.doctor.report import Finding
from envlab.task import ENTRY_POINT_GROUP

_SUFFIXES = (".py", ".xml", ".yaml")


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
    digests = {}
    for name in dict.fromkeys(("envlab", "envlab_tasks", "envlab_assets", *sorted(suites))):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            digests[name] = digest_of(Path(spec.origin))
    return digests


def digest_of(origin: Path) -> str:
    """Return a digest of a package's files by name and content, or of a lone module."""
    is_package = origin.name == "__init__.py"
    files = origin.parent.rglob("*") if is_package else iter([origin])
    total = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix in _SUFFIXES and path.is_file()):
        total.update(str(path.relative_to(origin.parent)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]
