"""Hugging Face's Accelerate: a process's place, and whether all processes take part."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.errors import LaunchError

if TYPE_CHECKING:
    from accelerate import Accelerator

logger = logging.getLogger(f"envlab.{__name__}")

CONFIG = "scripts/reinforcement_learning/evolution/accelerate.yaml"


def make_accelerator() -> Accelerator:
    """Return an ``Accelerator``, started by ``accelerate launch`` or ``torch.distributed.run``.

    Without a GPU, Accelerate (1.15) takes each of several processes for a lone one unless
    ``cpu=True`` is passed; and ``accelerate launch --cpu --num_processes 2`` starts one.

    Raises:
        LaunchError: If Accelerate is missing, or does not see the other processes.
    """
    try:
        from accelerate import Accelerator
    except ImportError as error:
        raise LaunchError(
            "Accelerate cannot be found. Install it with: pip install -c constraints.txt -e "
            "'.[accelerate]'"
        ) from error
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched == 1 and os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true":
        logger.warning(
            "accelerate launch --cpu starts one process, whatever --num_processes says, unless "
            "mpirun is installed. To start two: accelerate launch --config_file %s "
            "--num_processes=2 SCRIPT",
            CONFIG,
        )
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    if accelerator.num_processes != launched:
        raise LaunchError(
            f"{launched} processes were launched, but Accelerate sees {accelerator.num_processes}. "
            f"Start them by: accelerate launch --config_file {CONFIG} SCRIPT"
        )
    return accelerator


def context_of(accelerator: Any) -> DistributedContext:
    """Return the process's context, of an ``Accelerator`` or a context itself; None: alone."""
    if isinstance(accelerator, DistributedContext):
        return accelerator
    if accelerator is None:
        return DistributedContext()
    return DistributedContext(
        rank=accelerator.process_index,
        local_rank=accelerator.local_process_index,
        world_size=accelerator.num_processes,
        device=accelerator.device,
    )
