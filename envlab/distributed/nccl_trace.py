"""NCCL's flight recorder: which collectives a GPU rank began and ended last, by the library itself.

Written for torch 2.13, whose name of the variable is ``TORCH_FR_BUFFER_SIZE`` (before:
``TORCH_NCCL_TRACE_BUFFER_SIZE``). Not tried with several GPUs.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from pathlib import Path

import torch

logger = logging.getLogger(__name__)

ENTRIES = "2000"
"""Collectives that are remembered, a few hundred bytes each."""


def record_collectives(environ: MutableMapping[str, str]) -> None:
    """Switch the recorder on, unless the user has set it; before the process group is joined."""
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        environ.setdefault(name, ENTRIES)


def write_trace(directory: Path, rank: int) -> None:
    """Write what was recorded as ``nccl_rank<i>.json`` into a run directory, if torch has NCCL."""
    distributed = getattr(torch._C, "_distributed_c10d", None)
    dump = getattr(distributed, "_dump_nccl_trace_json", None)
    if dump is None or not directory.is_dir():
        return
    try:
        (directory / f"nccl_rank{rank}.json").write_bytes(dump())
    except (OSError, RuntimeError, TypeError) as error:
        logger.warning("NCCL's trace cannot be written (%s).", error)
