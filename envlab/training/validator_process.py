"""The process that validates alongside a training, on the first node."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envlab.child import Child
from envlab.distributed.ranks import NO_RANK
from envlab.errors import EnvlabError
from envlab.training.inputs import module_of

if TYPE_CHECKING:  # which load torch
    from envlab.distributed.context import DistributedContext
    from envlab.training.plan import RunPlan

logger = logging.getLogger(__name__)

LAST_S = 600.0
"""How long the last checkpoint may take."""


def start_validator(
    plan: RunPlan, directory: Path, context: DistributedContext
) -> ValidatorProcess | None:
    """Start validating a run on rank 0, if requested; otherwise do nothing."""
    flags = plan.flags
    if not (flags.validate and context.is_main):
        return None
    # Only the user's own words, as code in a run's files is not run unasked.
    words = plan.library.file_words(flags)
    trusted = [*(flags.trust or ()), module_of(plan.task.id)]  # which --task has named
    words += [f"--trust={one}" for one in trusted if one]
    return ValidatorProcess(directory, [*words, f"--device={context.device}"])


class ValidatorProcess:
    """Judges the newest checkpoint of a run while it trains."""

    def __init__(self, directory: Path, words: Sequence[str]) -> None:
        """Start it; it writes to ``validation.log`` in the run directory.

        Args:
            directory: The run directory.
            words: Further arguments of ``envlab validate``.
        """
        with (directory / "validation.log").open("ab") as log:
            self.child = Child(
                "envlab.training.validate:validate_beside_training",
                [str(directory), *words],
                timeout_s=LAST_S,
                environ=NO_RANK | {"OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
            )

    def finish(self) -> None:
        """Wait for the last checkpoint's validation."""
        logger.info("Validating the last checkpoint.")
        try:
            self.child.send(None)  # the training ends in order
            self.child.receive()
            self.child.process.wait(LAST_S)
        except (EnvlabError, subprocess.TimeoutExpired) as error:
            logger.warning("The validation failed; validation.log has its output. (%s)", error)

    def close(self) -> None:
        """End it, whatever it is doing."""
        self.child.end()
