"""The packages of a project's checkout, which its users install with ``pip install -e``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

_MOST_PARENTS = 6
_SETUPS = ("setup.py", "pyproject.toml")


def add_packages(start: Path) -> list[Path]:
    """Let the packages of the checkout that a path is in be imported.

    Args:
        start: A script, or the checkout's folder.

    Returns:
        The folders that were added.
    """
    start = start.resolve()
    own = [start] if start.is_dir() else []
    added = []
    for folder in [*own, *start.parents][:_MOST_PARENTS]:
        added += [one for one in folders(folder) if str(one) not in sys.path]
        if (folder / ".git").exists():
            break
    sys.path[:0] = [str(folder) for folder in added]
    return added


def folders(folder: Path) -> Iterator[Path]:
    """Yield folders of packages in a folder: its own, ``src``, those in ``source`` and ``exts``."""
    for one in (folder, *sorted(folder.glob("source/*")), *sorted(folder.glob("exts/*"))):
        if any((one / name).is_file() for name in _SETUPS):
            if any(one.glob("*/__init__.py")):
                yield one
            if any(one.glob("src/*/__init__.py")):
                yield one / "src"
