"""Stop and resume a run from its page, if ``--allow-control`` permits that.

The only input from a visitor is the name of a run that the server has found. A run is
stopped only if the process that holds its lock is found on this machine, and resumed only by
envlab's own command line, without a shell.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil

from envlab.errors import RunDirectoryError
from envlab.run.checkpoints import Checkpoints
from envlab.run.commands import resume_words
from envlab.run.directory import LOCK
from envlab.run.manifest import LOG_ROOT
from envlab_web.dashboard.catalogue import Listed

logger = logging.getLogger(f"envlab.{__name__}")

OUTPUT = "resumed.txt"
"""File in a run's folder with the output of the run that was resumed from it."""
_LAUNCHERS = (
    *("torchrun", "torch.distributed.run", "envlab.distributed.torchrun"),
    *("skrl.utils.distributed.jax", "accelerate"),
)
started: dict[Path, subprocess.Popen[bytes]] = {}
"""Running processes by the run directory that they were resumed from."""
_lock = threading.Lock()


def stop(run: Listed) -> str:
    """Ask a run to save a checkpoint and to end, as a scheduler would; return a message.

    Raises:
        RunDirectoryError: If it does not run, or not on this machine.
    """
    process = _writer(run)
    parent = process.parent()
    if parent is not None and is_launcher(_words(parent)):
        process = parent  # which forwards this to all ranks, and restarts none of them
    process.send_signal(signal.SIGTERM)
    logger.info("Asked pid %d to end, for the run %s.", process.pid, run.name)
    return f"Asked process {process.pid} to end. The run saves a checkpoint first."


def _writer(run: Listed) -> psutil.Process:
    """Return the process that has a run's lock open: its files could name any process."""
    lock = str(_own_file(run, LOCK))
    for process in psutil.process_iter():
        try:
            if any(file.path == lock for file in process.open_files()):
                return process
        except psutil.Error:  # ended, or another user's
            continue
    raise RunDirectoryError(
        f"No process of yours on {socket.gethostname()} writes the run {run.name}: it has ended, "
        "or runs elsewhere. Stop it on its own host, or by envlab cluster kill."
    )


def _own_file(run: Listed, name: str) -> Path:
    """Return a file of a run: links could lead to others' files and processes."""
    path = run.directory.resolve() / name
    if path.is_symlink():
        raise RunDirectoryError(f"{path} is a link, which is not followed. Remove it.")
    return path


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def is_launcher(words: Sequence[str]) -> bool:
    """Return whether a command starts ranks, and passes signals on to them."""
    return any(Path(word).name in _LAUNCHERS or word in _LAUNCHERS for word in words[:4])


def resume(run: Listed) -> str:
    """Start the command that a run was started with, from its newest checkpoint.

    Raises:
        RunDirectoryError: If it still runs, has no checkpoint, or cannot be started from here.
    """
    with _lock:  # two simultaneous clicks start one process
        return _resume(run)


def _resume(run: Listed) -> str:
    for directory, process in list(started.items()):
        if process.poll() is not None:
            del started[directory]
    if run.directory in started:
        raise RunDirectoryError(f"The run {run.name} has already been resumed and is running.")
    words, folder = _resume_words(run)
    with _own_file(run, OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    started[run.directory] = process
    logger.info("Started pid %d: %s", process.pid, words)
    return f"Started process {process.pid}; it appears in the list as a run of its own."


def _resume_words(run: Listed) -> tuple[list[str], Path]:
    """Return the command to start, and its folder."""
    directory = run.directory
    if run.row.status == "running":
        raise RunDirectoryError(f"The run {run.name} is running. Stop it first.")
    checkpoints = Checkpoints(directory / "checkpoints")
    numbers = checkpoints.iterations()
    if not numbers:
        raise RunDirectoryError(f"The run {run.name} has no checkpoint to resume from.")
    words = resume_words(run.manifest, checkpoints.path(numbers[-1]))
    if not words or directory.parents[2].name != LOG_ROOT:
        raise RunDirectoryError(
            f"The run {run.name} cannot be resumed from here: that takes a run of 'envlab train' "
            f"on one machine, in a folder {LOG_ROOT}/LIBRARY/EXPERIMENT. Its page shows the "
            "command."
        )
    words[-1] = f"--checkpoint={checkpoints.path(numbers[-1])}"
    return [sys.executable, "-m", *words], directory.parents[3]
