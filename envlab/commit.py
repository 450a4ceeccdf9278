"""Identity of this code: its commit, and digests of packages' files. It imports no torch."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DEADLINE_S = 10.0
OWN_PACKAGES = ("envlab", "envlab_tasks", "envlab_assets")
_SUFFIXES = (".py", ".xml", ".yaml")
"""Files that define tasks and engine; others, such as meshes, may be gigabytes."""


def git_state() -> dict[str, Any] | None:
    """Return envlab's commit, and whether files differ from it; None without a checkout."""
    command = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit, status = (
            subprocess.run(
                [*command, *words],
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=True,
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(status)}


def code_digests(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return digests of the code, models and settings of envlab's packages, and of others.

    It reads files instead of git, so that it is the same in a checkout, a copy and a wheel. On this
    project's 350 files it takes 20 ms.

    Args:
        packages: Top-level modules and packages; those not installed are omitted.
    """
    digests = {}
    for name in dict.fromkeys((*OWN_PACKAGES, *sorted(packages))):
        if name == "__main__":  # a script that registers a task
            origin = getattr(sys.modules[name], "__file__", None)
        else:
            spec = importlib.util.find_spec(name)
            origin = None if spec is None else spec.origin
        if origin is not None:
            digests[name] = digest_of(Path(origin))
    return digests


@functools.cache
def digest_of(origin: Path) -> str:
    """Return a digest of a package's files by name and content, or of a single module."""
    is_package = origin.name == "__init__.py"
    files = origin.parent.rglob("*") if is_package else iter([origin])
    total = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix in _SUFFIXES and path.is_file()):
        total.update(str(path.relative_to(origin.parent)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]
