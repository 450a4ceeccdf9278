"""``envlab cluster slurm``: write the sbatch script of a training run, and submit it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envlab.cluster.slurm_script import MARK, OPTIONS, job_script, spelled
from envlab.cluster.training_words import (
    SCRIPT,
    check_places,
    check_training,
    library_of,
    without_dashes,
)
from envlab.errors import ConfigurationError, LaunchError, did_you_mean
from envlab.rl.command.arguments import ArgumentParser
from envlab.rl.libraries import libraries

DEADLINE_S = 60.0
"""How long sbatch may take."""
LEAST_NOTICE_S = 30
_EPILOG = """LIBRARY is rsl_rl, rl_games or skrl, or the path of a training script; then come its
own flags and overrides. --distributed and --requeue are added to them.

  envlab cluster slurm --nodes 2 --gpus-per-node 4 --time 04:00:00 --cpus-per-task 32 \\
      rsl_rl --task Isaac-Ant-v0 --max_iterations 2000

Where there is no sbatch, the script is printed."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?")
_PATTERNS = {
    "cpus_per_task": (r"[1-9]\d*", "a number of cores"),
    "mem": (r"\d+[KMGT]?", "a size such as 64G, or 0 for all"),
    "gpus_per_node": (r"([A-Za-z][\w.-]*:)?\d+", "a number, or type:number as in a100:4"),
}


def main(arguments: Sequence[str]) -> int:
    """Submit the job, or write or print its script; return the exit code.

    Raises:
        ConfigurationError: If the job could not work as asked for.
        LaunchError: If sbatch refuses it.
    """
    flags = _parse(arguments)
    train = _complete(flags)
    script = job_script(flags, ["envlab", "cluster", "slurm", *arguments], train)
    if flags.cpus_per_task is None and not any("--exclusive" in word for word in flags.sbatch):
        _say(
            "Without --cpus-per-task, or --sbatch=--exclusive, most clusters give one core a node."
        )
    if flags.dry_run:
        print(script, end="")
    elif flags.output is not None:
        _write(script, Path(flags.output))
        logs = shlex.quote(str(Path(flags.envlab_path, flags.log_dir)))
        _say(f"Submit it with: mkdir -p {logs} && sbatch {shlex.quote(flags.output)}")
    elif shutil.which("sbatch") is None:
        print(script, end="")
        _say("There is no sbatch here, so the script is printed. Write it with --output FILE.")
    else:
        _submit(script, flags)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="envlab cluster slurm",
        usage="%(prog)s [option ...] LIBRARY [train.py's flags and overrides ...]",
        description="Train as a Slurm job: one torchrun a node, saved and requeued on preemption.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def add(name: str, **kwargs: object) -> None:  # in Slurm's spelling and in this house's
        spellings = dict.fromkeys((spelled(name), f"--{name}"))
        parser.add_argument(*spellings, dest=name, **kwargs)  # type: ignore[arg-type]

    add("nodes", type=int, default=1, metavar="N", help="nodes (default: 1)")
    add("gpus_per_node", metavar="[TYPE:]G", help="GPUs a node, a process for each")
    add("processes_per_node", type=int, metavar="N", help="processes a node, without GPUs")
    for name, meaning in OPTIONS.items():
        add(name, metavar=name.partition("_")[0].upper(), help=meaning)
    add("seeds", metavar="A,B,...", help="a run for each seed, as a job array")
    add("sbatch", action="append", default=[], metavar="'--X=Y'", help="any directive; repeat it")
    add(
        "srun", action="append", default=[], metavar="'--X=Y'", help="any option of srun; repeat it"
    )
    add("env_activate_path", metavar="FILE", help="sourced first (default: this environment's)")
    add("envlab_path", metavar="FOLDER", help="where the job starts (default: the current folder)")
    add("log_dir", default="logs/slurm", metavar="FOLDER", help="for logs (default: %(default)s)")
    add("notice_s", type=int, default=120, metavar="S", help="signal so long before the end (120)")
    add("max_restarts", type=int, default=0, metavar="N", help="torchrun's restarts (default: 0)")
    add("no_requeue", action="store_true", help="do not go on after a preemption")
    add("output", metavar="FILE", help="write the script to FILE, and submit nothing")
    add("dry_run", action="store_true", help="print the script, and submit nothing")
    parser.add_argument("train", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the flags, each of them checked by itself."""
    for word in arguments:
        if not word.isprintable():
            raise ConfigurationError(
                f"The argument {word!r} holds a line break or a control character, which a script "
                "cannot pass on safely. Leave it out."
            )
    parser = _parser()
    flags, unknown = parser.parse_known_args(_joined(arguments))
    if unknown:
        name = unknown[0].partition("=")[0]
        known = [option for action in parser._actions for option in action.option_strings]
        raise ConfigurationError(
            f"There is no flag {name!r}.{did_you_mean(name, known)} See --help; train.py's own "
            "flags come after the library."
        )
    flags.train = without_dashes(flags.train)
    check_places(flags.train, parser)
    _check_numbers(flags)
    _check_values(flags)
    return flags


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the words with ``--sbatch --x`` as one: argparse would take the second for a flag."""
    words: list[str] = []
    for word in arguments:
        if words and words[-1] in ("--sbatch", "--srun"):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _check_numbers(flags: argparse.Namespace) -> None:
    for name, least in (("nodes", 1), ("processes_per_node", 1), ("max_restarts", 0)):
        value = getattr(flags, name)
        if value is not None and value < least:
            raise ConfigurationError(f"{spelled(name)} is {value}, but must be at least {least}.")
    if flags.notice_s < LEAST_NOTICE_S:
        raise ConfigurationError(
            f"--notice-s is {flags.notice_s}, but must be at least {LEAST_NOTICE_S} s: what an "
            "iteration and a checkpoint take, twice."
        )
    limit = None if flags.time is None else _seconds(flags.time)
    if limit is not None and limit <= flags.notice_s:
        raise ConfigurationError(
            f"--time {flags.time} is {limit} s, which is over by the time that the job "
            f"is warned, {flags.notice_s} s before. Give it more time, or a smaller --notice-s."
        )


def _seconds(time: str) -> int | None:
    """Return a time limit in seconds, None for no limit.

    Slurm reads ``m``, ``m:s``, ``h:m:s``, ``d-h``, ``d-h:m`` and ``d-h:m:s``.
    """
    if time.upper() in ("UNLIMITED", "INFINITE"):
        return None
    match = _TIME.fullmatch(time)
    if match is None:
        raise ConfigurationError(
            f"--time is {time!r}, which Slurm does not read. Write hours:minutes:seconds, such as "
            "04:00:00, or days-hours, such as 2-12."
        )
    days, *rest = match.groups()
    numbers = [int(number) for number in rest if number is not None]
    if days is None and len(numbers) < 3:
        numbers.insert(0, 0)
    hours, minutes, seconds = [*numbers, 0, 0][:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _check_values(flags: argparse.Namespace) -> None:
    for name, (pattern, meaning) in _PATTERNS.items():
        value = getattr(flags, name)
        if value is not None and re.fullmatch(pattern, value) is None:
            raise ConfigurationError(f"{spelled(name)} is {value!r}, but must be {meaning}.")
    for name in (*OPTIONS, "envlab_path", "log_dir"):
        value = getattr(flags, name)
        if value is not None and (not value or re.search(r"[\"'\\`$%\x00-\x1f]", value)):
            raise ConfigurationError(
                f"{spelled(name)} is {value!r}, but must be a word or path without quotes, "
                "backslashes, line breaks, $ and %, which sbatch reads in its own way."
            )
    names = {spelled(name) for name in (*OPTIONS, "nodes", "gpus_per_node", "output")}
    for kind in ("sbatch", "srun"):
        for word in getattr(flags, kind):
            if not re.match(r"--?[A-Za-z]", word):
                raise ConfigurationError(
                    f"--{kind} is {word!r}, but must be an option such as --exclusive. Write "
                    f"--{kind}='--name=value'."
                )
    for word in flags.sbatch:
        if word.partition("=")[0].split()[0] in {*names, "--array", "--signal", "--chdir"}:
            raise ConfigurationError(
                f"--sbatch is {word!r}, which the script sets itself. Use the flag of "
                "envlab cluster slurm; see --help."
            )


def _complete(flags: argparse.Namespace) -> list[str]:
    """Settle what flags leave open; return what torchrun runs.

    Raises:
        ConfigurationError: If flags do not fit each other, or train.py would refuse its own.
    """
    folder = Path(flags.envlab_path or ".").expanduser().absolute()
    library, train = _train_words(flags.train, folder, adds_requeue=not flags.no_requeue)
    task = check_training(library, flags.train[1:]) if library else None
    flags.envlab_path = str(folder)
    flags.job_name = flags.job_name or task or "envlab"
    flags.env_activate_path = _activation(flags.env_activate_path)
    flags.seeds = _seeds(flags.seeds, train)
    if flags.gpus_per_node == "0":
        flags.gpus_per_node = None
    if flags.gpus_per_node is not None:
        count = int(flags.gpus_per_node.rpartition(":")[2])
        if flags.processes_per_node not in (None, count):
            raise ConfigurationError(
                f"--processes-per-node is {flags.processes_per_node}, but there is one process for "
                f"each of the {count} GPUs of a node. Leave it out."
            )
        flags.processes_per_node = count
    flags.processes_per_node = flags.processes_per_node or 1
    return train


def _train_words(
    words: list[str], folder: Path, *, adds_requeue: bool
) -> tuple[str | None, list[str]]:
    """Return the library, if it is one of ours, and what torchrun runs."""
    if not words:
        raise ConfigurationError(
            "There is nothing to train. Name a library and a task after the options: "
            "envlab cluster slurm --nodes 2 rsl_rl --task Isaac-Cartpole-v0"
        )
    first, *rest = words
    for name in ("--distributed", *(["--requeue"] if adds_requeue else [])):
        if name not in rest:
            rest.append(name)
    if first in libraries():
        path = SCRIPT.format(library=first)
        start = [path] if (folder / path).is_file() else ["-m", "envlab.cli", "train", first]
        return first, [*start, *rest]
    if not first.endswith(".py"):
        raise ConfigurationError(
            f"{first!r} is neither a library ({', '.join(libraries())}) nor a Python script."
            f"{did_you_mean(first, libraries())} Options of the job come before it."
        )
    if folder.is_dir() and not (folder / first).is_file():
        raise ConfigurationError(
            f"The script {first} is not in {folder}. Start from the folder where it is, or name "
            "that by --envlab-path."
        )
    return library_of(first), [first, *rest]


def _seeds(text: str | None, train: Sequence[str]) -> list[int]:
    if text is None:
        return []
    words = text.split(",")
    if not all(word.isdigit() for word in words) or len(set(words)) < len(words):
        raise ConfigurationError(
            f"--seeds is {text!r}, but must be different whole numbers, such as 1,2,3."
        )
    if any(word.partition("=")[0] in ("--seed", "agent.seed") for word in train):
        raise ConfigurationError(
            "--seeds sets the seed of every run, but train.py is given one too. Leave out one."
        )
    return [int(word) for word in words]


def _activation(given: str | None) -> str | None:
    """Return the file to source: the given one (empty: none), or the environment's we run in."""
    if given is not None:
        return os.path.expanduser(given) or None
    path = Path(sys.prefix, "bin/activate")
    return str(path) if sys.prefix != sys.base_prefix and path.is_file() else None


def _write(script: str, path: Path) -> None:
    """Write the script; over an older one, but over nothing else."""
    try:
        if path.exists() and MARK not in path.read_text(errors="replace")[:200]:
            raise ConfigurationError(
                f"--output is {path}, which exists and was not made here. Name another file."
            )
        path.write_text(script)
    except OSError as error:
        raise ConfigurationError(
            f"The script cannot be written to {path} ({error.strerror}). Name another file."
        ) from None
    _say(f"Wrote {path}.")


def _submit(script: str, flags: argparse.Namespace) -> None:
    """Hand the script to sbatch, and say how the job is watched and stopped."""
    for what, path in (("folder", flags.envlab_path), ("file to source", flags.env_activate_path)):
        if path is not None and not Path(path).exists():
            raise ConfigurationError(
                f"The {what} {path} does not exist here. Name another one, or write the script "
                "with --output FILE and submit it where it does."
            )
    logs = Path(flags.envlab_path, flags.log_dir)
    try:
        logs.mkdir(parents=True, exist_ok=True)  # without it the job would end without a word
        done = subprocess.run(
            ["sbatch", "--parsable"],
            input=script,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            cwd=flags.envlab_path,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"The job could not be submitted: {error}.") from None
    if done.returncode != 0:
        raise LaunchError(
            f"sbatch refused the job: {done.stderr.strip() or 'it did not say why'}. Change the "
            "options; --dry_run shows the script."
        )
    number = done.stdout.strip().partition(";")[0]
    runs = f"{len(flags.seeds)} runs of " if flags.seeds else ""
    print(f"Submitted job {number}: {runs}{flags.nodes} x {flags.processes_per_node} processes.")
    print(f"  look   squeue --job {number}; tail -F {shlex.quote(str(logs))}/*-{number}*.out")
    print(f"  stop   scancel {number}")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
