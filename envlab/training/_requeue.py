"""Slurm's requeue: a job whose time is up is started again, and resumes where it stopped.

Only SIGUSR1 triggers it. SIGTERM comes from ``scancel``, or from a preemption that requeues
automatically.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess

from envlab.errors import ConfigurationError
from envlab.training.flags import Flags

logger = logging.getLogger(__name__)

DEADLINE_S = 30.0
"""How long Slurm's controller may take to answer."""


def check_requeue(flags: Flags) -> None:
    """Refuse ``--requeue`` if it could not work.

    Raises:
        ConfigurationError: If this is no Slurm job, or ``scontrol`` is not found.
    """
    if not flags.requeue:
        return
    if "SLURM_JOB_ID" not in os.environ:
        raise ConfigurationError(
            "--requeue was given, but SLURM_JOB_ID is not set, so this is no Slurm job. Submit it "
            "with sbatch, or leave the flag out."
        )
    if shutil.which("scontrol") is None:
        raise ConfigurationError(
            "--requeue was given, but the command scontrol, which does it, is not on PATH here. "
            "Add Slurm's folder to PATH, or leave the flag out."
        )


def requeue() -> None:
    """Ask Slurm to start this job again, and log that it will, or why not."""
    job = os.environ["SLURM_JOB_ID"]
    try:
        subprocess.run(
            ["scontrol", "requeue", job],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        logger.warning(
            "Slurm does not requeue job %s (%s). Start it again with: scontrol requeue %s",
            job,
            reason,
            job,
        )
        return
    logger.warning("Slurm will start job %s again, and the run resumes where it stopped.", job)
