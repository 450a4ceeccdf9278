"""The process that validates beside a training, on the first node."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # which load torch
    from envlab.distributed.context import DistributedContext
    from envlab.train.session import Session

logger = logging.getLogger(__name__)

FINISH = b"finish\n"
"""What a training tells the process that validates beside it when it ends in order."""
LAST_S = 600.0
"""How long the last checkpoint may take."""


def start_validator(
    session: Session, directory: Path, context: DistributedContext
) -> ValidatorProcess | None:
    """Start validating a run where that was asked for; on the other ranks, and else, do nothing."""
    flags = session.flags
    if not (flags.validate and context.is_main):
        return None
    # What the user has named on this command line, as code of a run's files is not run unasked.
    words = session.library.file_words(flags)
    words += [f"--trust={one}" for one in flags.trust or ()]
    return ValidatorProcess(directory, [*words, f"--device={context.device}"])


class ValidatorProcess:
    """Judges the newest checkpoint of a run while the run goes on.

    Its standard input is a pipe from here, which closes however this process ends; then it ends.
    """

    def __init__(self, directory: Path, words: Sequence[str]) -> None:
        """Start it; it writes to ``validation.log`` in the run directory.

        Args:
            directory: The run directory.
            words: What ``envlab validate`` is given besides.
        """
        launchers = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
        environ = {name: value for name, value in os.environ.items() if name not in launchers}
        command = [sys.executable, "-m", "envlab", "validate", str(directory), "--beside_training"]
        with (directory / "validation.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C and torchrun's signals are this process's business
            )

    def finish(self) -> None:
        """Wait for the last checkpoint's validation."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(FINISH)
            self._process.stdin.flush()
        logger.info("Validating the last checkpoint.")
        try:
            code = self._process.wait(LAST_S)
        except subprocess.TimeoutExpired:
            logger.warning("The last validation took more than %.0f s and was ended.", LAST_S)
            return
        if code:
            logger.warning("Validation ended with code %d; validation.log says why.", code)

    def close(self) -> None:
        """End it, whatever it does."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
