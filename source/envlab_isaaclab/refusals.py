"""Sentences for what a project needs that is not on this machine."""

from __future__ import annotations

from envlab_bridge.errors import not_installed
from envlab_isaaclab.kit import NUCLEUS


def sentence_of(error: Exception) -> str | None:
    """Return a remedy for a package or a file of Nvidia's server that is missing, else None."""
    if isinstance(error, ImportError):
        is_ours = error.name is None or error.name.startswith("envlab")
        return None if is_ours else not_installed(error)
    if isinstance(error, FileNotFoundError) and NUCLEUS in str(error):
        return (
            f"{' '.join(str(error).split())} It lies on Nvidia's server; name a folder with "
            "copies of its files by --nucleus FOLDER."
        )
    return None


def forget(_: object) -> None:
    """Print no error of an object that was half made when a sentence ended the run."""
