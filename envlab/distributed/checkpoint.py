"""Checkpoints: written whole or not at all, and read without executing code from the file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch

from envlab.errors import CheckpointError

FORMAT_VERSION = 1


def save_checkpoint(path: Path, values: dict[str, Any]) -> None:
    """Write ``values`` (tensors, numbers, strings, containers) to ``path`` atomically.

    The file is written under a temporary name in the same folder, flushed to disk and renamed, so
    that a crash leaves either the old file or the new one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save({"format_version": FORMAT_VERSION, **values}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return what :func:`save_checkpoint` wrote, on the CPU.

    Raises:
        CheckpointError: If the file is missing, truncated, not ours, or of a newer format.
    """
    if not path.is_file():
        raise CheckpointError(
            f"There is no checkpoint {path}. Use 'latest', 'best', or a file's path."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a foreign pickle before it refuses it
            values = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch raise nearly anything
        raise CheckpointError(
            f"The checkpoint {path} cannot be read ({type(error).__name__}): it is truncated, or "
            "was not written by envlab. Use an earlier one."
        ) from error
    version = values.get("format_version") if isinstance(values, dict) else None
    if version is None:
        raise CheckpointError(
            f"The file {path} is no checkpoint of envlab: it holds no format version. "
            "Use a file from a run's checkpoints folder."
        )
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"The checkpoint {path} has format {version}, but this envlab reads up to "
            f"{FORMAT_VERSION}. Update envlab."
        )
    return values
