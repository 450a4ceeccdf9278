"""The packages of a project's checkout, which its users install with ``pip install -e``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

_MOST_PARENTS = 6
_SETUPS = ("setup.py", "pyproject.toml")
REGISTERS = "env_cfg_entry_point"
"""What a file that registers a task contains."""


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


def modules(folder: Path) -> dict[str, Path]:
    """Return the modules of the packages below a folder, with their files."""
    found = {}
    for place in folders(folder):
        for file in sorted(place.glob("*/**/*.py")):
            inside = file.relative_to(place)
            if (place / inside.parts[0] / "__init__.py").is_file():
                parts = inside.with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def registering(files: dict[str, Path]) -> list[str]:
    """Return the modules that register tasks, of those that :func:`modules` returned."""
    texts = {
        name: file.read_text(encoding="utf-8", errors="replace") for name, file in files.items()
    }
    return sorted(name for name, text in texts.items() if REGISTERS in text and "register(" in text)
