"""``envlab cluster slurm``: write the sbatch script of a training run, and submit it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from envlab.errors import ConfigurationError, LaunchError
from envlab.train.arguments import ArgumentParser
from envlab_cluster import job as jobs
from envlab_cluster.job import Job, add_flag, say, spelled
from envlab_cluster.slurm_script import OPTIONS, job_script
from envlab_cluster.training_words import run_id_of

_EPILOG = """LIBRARY is rsl_rl, rl_games, skrl, ddppo, or the path of a training script; then
come its own flags and overrides. --distributed and --requeue are added to them.

  envlab cluster slurm --nodes 2 --gpus-per-node 4 --time 04:00:00 --cpus-per-task 32 \\
      rsl_rl --task Isaac-Ant-v0 --max_iterations 2000

Where there is no sbatch, the script is printed."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?")
_PATTERNS = {
    "cpus_per_task": (r"[1-9]\d*", "a number of cores"),
    "mem": (r"\d+[KMGT]?", "a size such as 64G, or 0 for all"),
}


def main(arguments: Sequence[str]) -> int:
    """Submit the job, or write or print its script; return the exit code.

    Raises:
        ConfigurationError: If the job could not work as asked for.
        LaunchError: If sbatch refuses it.
    """
    flags = jobs.parse(_parser(), _joined(arguments))
    _check_time(flags)
    _check_values(flags)
    folder = Path(flags.envlab_path or ".").expanduser().absolute()
    flags.envlab_path = str(folder)
    requeue = [] if flags.no_requeue else ["--requeue"]
    job = jobs.describe(flags, name=flags.job_name, folder=folder, added=requeue)
    flags.env_activate_path = _activation(flags.env_activate_path)
    flags.seeds = _seeds(flags.seeds, job.train)
    script = job_script(job, flags, ["envlab", "cluster", "slurm", *arguments])
    if flags.cpus_per_task is None and not any("--exclusive" in word for word in flags.sbatch):
        say("Without --cpus-per-task, or --sbatch=--exclusive, most clusters give one core a node.")
    if flags.dry_run or flags.output == jobs.STDOUT:
        print(script, end="")
    elif flags.output is not None:
        jobs.write(script, Path(flags.output))
        logs = shlex.quote(str(Path(flags.envlab_path, flags.log_dir)))
        say(f"Submit it with: mkdir -p {logs} && sbatch {shlex.quote(flags.output)}")
    elif shutil.which("sbatch") is None:
        print(script, end="")
        say("There is no sbatch here, so the script is printed. Write it with --output FILE.")
    else:
        _submit(script, job, flags)
    return 0


def _parser() -> ArgumentParser:
    parser = jobs.make_parser(
        "slurm",
        "Train as a Slurm job: one torchrun a node, saved and requeued on preemption.",
        _EPILOG,
    )

    def add(name: str, **kwargs: object) -> None:
        add_flag(parser, name, **kwargs)

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
    add("no_requeue", action="store_true", help="do not go on after a preemption")
    jobs.add_flags(parser)
    return parser


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the words with ``--sbatch --x`` as one: argparse would take the second for a flag."""
    words: list[str] = []
    for word in arguments:
        if words and words[-1] in ("--sbatch", "--srun"):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _check_time(flags: argparse.Namespace) -> None:
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


def _seeds(text: str | None, train: Sequence[str]) -> list[int]:
    if text is None:
        return []
    words = text.split(",")
    seeds = [int(word) for word in words if re.fullmatch("[0-9]+", word)]
    if len(set(seeds)) < len(words):
        raise ConfigurationError(
            f"--seeds is {text!r}, but must be different whole numbers, such as 1,2,3."
        )
    if any(word.partition("=")[0] in ("--seed", "agent.seed") for word in train):
        raise ConfigurationError(
            "--seeds sets the seed of every run, but train.py is given one too. Leave out one."
        )
    if (run_id := run_id_of(train)) is not None:
        raise ConfigurationError(
            f"--seeds asks for several runs, but --run_id {run_id} would be the same for all. "
            "Leave it out: a requeued job finds its run by Slurm's number."
        )
    return seeds


def _activation(given: str | None) -> str | None:
    """Return the file to source: the given one (empty: none), or the environment's we run in."""
    if given is not None:
        return os.path.expanduser(given) or None
    path = Path(sys.prefix, "bin/activate")
    return str(path) if sys.prefix != sys.base_prefix and path.is_file() else None


def _submit(script: str, job: Job, flags: argparse.Namespace) -> None:
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
    except OSError as error:
        raise LaunchError(f"The job could not be submitted: {error}.") from None
    answer = jobs.submit(["sbatch", "--parsable"], script, "script", cwd=flags.envlab_path)
    number = answer.strip().partition(";")[0]
    runs = f"{len(flags.seeds)} runs of " if flags.seeds else ""
    print(f"Submitted job {number}: {runs}{job.nodes} x {job.processes_per_node} processes.")
    print(f"  look   squeue --job {number}; tail -F {shlex.quote(str(logs))}/*-{number}*.out")
    print(f"  stop   scancel {number}")
