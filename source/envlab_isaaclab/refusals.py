"""Sentences for what a project needs that is not on this machine."""

from __future__ import annotations

import types

from envlab_bridge.errors import not_installed, own_line
from envlab_isaaclab.kit import NUCLEUS
from envlab_isaaclab.upstream import LATER, NEEDED, PACKAGES


def sentence_of(error: Exception) -> str | None:
    """Return a remedy for a package, name or file of Nvidia's server that is missing, else None."""
    if isinstance(error, ImportError):
        is_ours = error.name is None or error.name.startswith("envlab")
        package = str(error.name).partition(".")[0]
        if package in (*PACKAGES, *LATER):
            return _other_release(error)
        return None if is_ours else not_installed(error)
    if isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, types.ModuleType) else None
        is_labs = owner is not None and owner.__name__.partition(".")[0] in PACKAGES
        return _other_release(error) if is_labs else None
    if isinstance(error, FileNotFoundError) and NUCLEUS in str(error):
        return (
            f"{' '.join(str(error).split())} It lies on Nvidia's server; name a folder with "
            "copies of its files by --nucleus FOLDER."
        )
    return None


def _other_release(error: Exception) -> str:
    """Return what to do if a project uses a name of Isaac Lab that its release 2.3 lacks."""
    return (
        f"{own_line(error)}: {str(error).partition(' (')[0]}: Isaac Lab {NEEDED}, which runs here, "
        "lacks it. The project is for another release; take its version for Isaac Lab 2."
    )


def forget(_: object) -> None:
    """Print no error of an object that was half made when a sentence ended the run."""
