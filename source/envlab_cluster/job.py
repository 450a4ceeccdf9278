"""A training run as a job of a scheduler, checked before it waits in a queue."""

from __future__ import annotations

import argparse
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envlab.errors import ConfigurationError, did_you_mean
from envlab.libraries import libraries
from envlab_cluster.scheduler import COMMON, GPUS, Scheduler, fill
from envlab_cluster.training_words import SCRIPT, check_training, library_of, run_id_of


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training run on identical nodes."""

    name: str
    """The task's id, unless another name was given."""
    train: tuple[str, ...]
    """The command for torchrun: a script, or ``-m`` and a module, and its arguments."""
    nodes: int
    processes_per_node: int
    gpus_per_node: int
    gpu_type: str | None
    """As the scheduler calls it, such as ``a100``; None for any."""
    max_restarts: int
    """torchrun's restarts."""
    notice_s: int
    """Seconds between the signal and the end, to finish and save an iteration."""

    @property
    def size(self) -> str:
        """Numbers of processes and nodes, as readable text."""
        return f"{self.nodes} x {self.processes_per_node} processes"

    def with_run_id(self, *, name: str) -> Job:
        """Return a job of another name that finds its run again after a restart."""
        if run_id_of(self.train) is not None:
            return replace(self, name=name)
        run_id = f"--run_id={name}-{secrets.token_hex(3)}"
        return replace(self, name=name, train=(*self.train, run_id))

    def torchrun(self, **words: str) -> str:
        """Return bash that starts torchrun on a node; its arguments are the command for torchrun.

        Args:
            words: Bash words for the names in ``torchrun.sh``: the numbers of nodes and of
                processes on each, the condition of the node that keeps the rendezvous, and its
                address. By ``exec`` torchrun gets the signals of bash.
        """
        values = {
            "exec": "exec ",
            "options": "",
            "meeting_name": secrets.token_hex(8),  # not guessable
            "max_restarts": str(self.max_restarts),
            # It waits for processes that save: the notice, minus time for the kill.
            "shutdown_timeout_s": str(self.notice_s - self.notice_s // 6),
        }
        return fill("torchrun.sh", values | words)


def describe(
    scheduler: Scheduler,
    flags: argparse.Namespace,
    *,
    name: str | None,
    folder: Path | None,
    added: Sequence[str] = (),
) -> Job:
    """Return the job that flags ask for.

    Args:
        scheduler: The scheduler of the flags.
        flags: Flags of its command.
        name: The job's; None for the task's.
        folder: The folder in which torchrun will start; None for a folder of an image.
        added: Flags for train.py in addition to ``--distributed``.

    Raises:
        EnvlabError: If the scheduler or train.py would refuse its arguments, or flags do not
            fit each other.
    """
    for flag in (*scheduler.flags, *COMMON):
        flag.check(flags)
    library, train = _train_words(flags.train, folder, ["--distributed", *added])
    task = check_training(library, flags.train[1:], flags.nodes) if library else None
    match = re.fullmatch(GPUS.pattern, flags.gpus_per_node or "0")
    assert match is not None
    gpus = int(match[2])
    if gpus and flags.processes_per_node not in (None, gpus):
        raise ConfigurationError(
            f"--processes-per-node is {flags.processes_per_node}, but there is one process for "
            f"each of the {gpus} GPUs of a node. Leave it out."
        )
    return Job(
        name=name or task or "envlab",
        train=tuple(train),
        nodes=flags.nodes,
        processes_per_node=gpus or flags.processes_per_node or 1,
        gpus_per_node=gpus,
        gpu_type=match[1] if gpus else None,
        max_restarts=flags.max_restarts,
        notice_s=flags.notice_s,
    )


def _train_words(
    words: Sequence[str], folder: Path | None, added: Sequence[str]
) -> tuple[str | None, list[str]]:
    """Return the library, if it is one of ours, and the command for torchrun."""
    if not words:
        raise ConfigurationError(
            "There is nothing to train. Name a library and a task after the options, as in "
            "--nodes 2 rsl_rl --task Isaac-Cartpole-v0."
        )
    first, *rest = words
    given = {word.partition("=")[0] for word in rest}
    rest += [word for word in added if word.partition("=")[0] not in given]
    if first in libraries():
        path = SCRIPT.format(library=first)
        is_there = folder is not None and (folder / path).is_file()
        return first, [*([path] if is_there else ["-m", "envlab.cli", "train", first]), *rest]
    if not first.endswith(".py"):
        raise ConfigurationError(
            f"{first!r} is neither a library ({', '.join(libraries())}) nor a Python script."
            f"{did_you_mean(first, libraries())} Options of the job come before it."
        )
    if folder is not None and folder.is_dir() and not (folder / first).is_file():
        raise ConfigurationError(
            f"The script {first} is not in {folder}. Start from the folder where it is."
        )
    return library_of(first), [first, *rest]
