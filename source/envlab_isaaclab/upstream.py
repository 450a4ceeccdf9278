"""Finds the user's Isaac Lab: an installed wheel, an editable install, or a checkout."""

from __future__ import annotations

import importlib.util
import os
import sys
import tomllib
from pathlib import Path

from envlab.errors import ConfigurationError

OLD = ("omni.isaac.lab", "omni.isaac.orbit")
"""How the modules of Isaac Lab 1 begin."""
PACKAGES = ("isaaclab", "isaaclab_assets", "isaaclab_tasks", "isaaclab_rl", "isaaclab_contrib")
"""Packages of Isaac Lab, each in the folder of the same name below ``source``."""
LATER = ("isaaclab_newton", "isaaclab_ov", "isaaclab_physx", "isaaclab_visualizers")
"""Packages that release 3 has and 2.3 lacks."""
NEEDED = "2.3"
"""The release whose files run here."""
_OLDEST, _NEWEST = (0, 46), (1, 0)
"""Bounds of the version that release 2.3 and release 3 give the package isaaclab itself."""
VARIABLE = "ISAACLAB_PATH"
"""Names a checkout; the variable is Isaac Lab's own."""


def find(folder: str | None = None) -> Path:
    """Return the folder ``source`` of an Isaac Lab of the right release.

    Args:
        folder: A checkout, or the folder of an installed ``isaaclab``; None: that of
            ``$ISAACLAB_PATH``, else the installed one.

    Raises:
        ConfigurationError: If there is none, or it is of another release.
    """
    named = folder or os.environ.get(VARIABLE)
    starts = [Path(named)] if named else _installed()
    for start in starts:
        for source in (start / "source", start, *start.parents):
            if (source / "isaaclab/isaaclab/__init__.py").is_file():
                _check_release(source)
                return source
    if named:
        raise ConfigurationError(
            f"There is no Isaac Lab in {named!r}: it has no source/isaaclab/isaaclab. Name a "
            "checkout of the repository IsaacLab, or the folder of the installed package isaaclab."
        )
    raise ConfigurationError(
        "Isaac Lab is not installed, and its Python files are what projects for it run on. Install "
        "those alone, without Isaac Sim: pip install --no-deps isaaclab==2.3.2.post1 (3 MB), or "
        f"name a checkout: --isaaclab FOLDER, or {VARIABLE}."
    )


def is_isaac_lab(folder: str) -> bool:
    """Return whether a folder is Isaac Lab's own, a checkout's or an installed one."""
    places = (Path(folder) / "source", Path(folder))
    return any((place / "isaaclab/isaaclab/__init__.py").is_file() for place in places)


def _installed() -> list[Path]:
    found = importlib.util.find_spec("isaaclab") if "isaaclab" not in sys.modules else None
    loaded = sys.modules.get("isaaclab")
    file = found.origin if found is not None else getattr(loaded, "__file__", None)
    return [Path(file).parent] if file else []


def _check_release(source: Path) -> None:
    text = (source / "isaaclab/config/extension.toml").read_text(encoding="utf-8")
    version = str(tomllib.loads(text)["package"]["version"])
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if not _OLDEST <= numbers < _NEWEST:
        raise ConfigurationError(
            f"The Isaac Lab in {str(source)!r} has the package isaaclab {version}, which is not of "
            f"release {NEEDED}. Install it with: pip install --no-deps isaaclab==2.3.2.post1; "
            "projects for 2.0 to 2.2 run on it, and those for 3 run on Newton themselves."
        )


def add_to_path(source: Path) -> None:
    """Let Isaac Lab's packages be found."""
    folders = [str(source / name) for name in PACKAGES if (source / name / name).is_dir()]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
