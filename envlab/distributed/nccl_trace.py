"""NCCL's flight recorder: which collectives a GPU rank began and ended last, by the library itself.

torch 2.13 keeps the last 2000 unless ``TORCH_FR_BUFFER_SIZE`` says otherwise; before 2.13 it may
have to be told so. Not tried with several GPUs.
"""

from __future__ import annotations

import logging
from pathlib import Path

import torch

logger = logging.getLogger(__name__)


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
