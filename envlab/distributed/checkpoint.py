"""Checkpoint files: written whole or not at all, and read without executing code in them."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.disk import whole_file
from envlab.errors import CheckpointError

FORMAT_VERSION = 3
"""Written with each checkpoint. Version 1 named the ranks' state otherwise:
:mod:`envlab.run.old_states`."""


def save_checkpoint(
    path: Path, values: dict[str, Any], moved: Callable[[], None] = lambda: None
) -> None:
    """Write ``values`` (tensors, numbers, strings, containers) to ``path`` atomically.

    A crash, a power cut or an error leaves either the old file or the new one.

    Args:
        path: The file.
        values: Its contents.
        moved: Called after each piece is written.

    Raises:
        OSError: If it cannot be written, as on a full disk.
    """
    with whole_file(path, moved) as file:
        torch.save({"format_version": FORMAT_VERSION, **values}, file)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the values that :func:`save_checkpoint` wrote, on the CPU.

    Raises:
        CheckpointError: If the file is missing, damaged, not ours, or of a newer format.
    """
    if not path.is_file():
        raise CheckpointError(
            f"There is no checkpoint {path}. Use 'latest', 'best', or a file's path."
        )
    try:
        _check_sums(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a foreign pickle before it refuses it
            values = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch raise nearly anything
        raise CheckpointError(
            f"The checkpoint {path} cannot be read ({type(error).__name__}): it is truncated or "
            "damaged, or was not written by envlab. Use an earlier one."
        ) from error
    version = values.get("format_version") if isinstance(values, dict) else None
    if not isinstance(version, int):
        raise CheckpointError(
            f"The file {path} is not a checkpoint of envlab: it has no format version. Use a file "
            "from a run's checkpoints folder."
        )
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"The checkpoint {path} has format {version}, but this envlab reads up to "
            f"{FORMAT_VERSION}. Update envlab."
        )
    return values


def _check_sums(path: Path) -> None:
    """Compare a file with the checksums in it, which ``torch.load`` (2.13) does not do.

    Otherwise a flipped bit in a tensor would go unnoticed.

    Raises:
        BadZipFile: If a part of it is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"bad check sum of {damaged}")
