"""``envlab cluster slurm``: write the sbatch script of a training run, and submit it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from envlab.errors import ConfigurationError, LaunchError
from envlab_cluster.job import Job, describe
from envlab_cluster.scheduler import POSITIVE, Flag, Kind, Scheduler, fill, say, submit_by
from envlab_cluster.training_words import run_id_of

WORD = Kind(
    r"[^\"'\\`$%\x00-\x1f]+",
    "but must be a word or path without quotes, backslashes, line breaks, $ and %, which sbatch "
    "reads in its own way",
)
TIME = Kind(
    r"(?i:unlimited|infinite)|([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}",
    "which Slurm does not read. Write hours:minutes:seconds, such as 04:00:00, or days-hours, such "
    "as 2-12",
)
CORES = Kind(POSITIVE, "but must be a number of cores")
SIZE = Kind("[0-9]+[KMGT]?", "but must be a size such as 64G, or 0 for all")
OPTION = Kind(
    "--?[A-Za-z].*", "but must be an option such as --exclusive. Write {flag}='--name=value'"
)
PASSED_ON = (
    Flag("partition", "PARTITION", "partition (queue)", WORD),
    Flag("account", "ACCOUNT", "account that is charged", WORD),
    Flag("qos", "QOS", "quality of service", WORD),
    Flag("time", "TIME", "time limit, such as 04:00:00 or 2-12:00:00", TIME),
    Flag("cpus_per_task", "CPUS", "CPU cores a node", CORES),
    Flag("mem", "MEM", "memory a node, such as 64G", SIZE),
    Flag("constraint", "CONSTRAINT", "features that nodes must have", WORD),
    Flag("exclude", "EXCLUDE", "nodes not to be used", WORD),
    Flag("job_name", "JOB", "name of the job (default: the task)", WORD),
)
"""Slurm's own flags."""
SLURM = Scheduler(
    name="slurm",
    program="sbatch",
    description="Train as a Slurm job: one torchrun a node, saved and requeued on preemption.",
    example="--gpus-per-node 4 --time 04:00:00 --cpus-per-task 32",
    flags=(
        *PASSED_ON,
        Flag("seeds", "A,B,...", "a run for each seed, as a job array"),
        Flag("sbatch", "'--X=Y'", "any directive; repeat it", OPTION, repeats=True),
        Flag("srun", "'--X=Y'", "any option of srun; repeat it", OPTION, repeats=True),
        Flag("env_activate_path", "FILE", "sourced first (default: this environment's)"),
        Flag("envlab_path", "FOLDER", "where the job starts (default: the current folder)", WORD),
        Flag("log_dir", "FOLDER", "for logs (default: logs/slurm)", WORD, default="logs/slurm"),
        Flag("no_requeue", None, "do not resume after a preemption"),
    ),
)
_PLAIN = re.compile(r"[\w./:,=@%+-]+")


def main(arguments: Sequence[str]) -> int:
    """Submit the job, or write or print its script; return the exit code.

    Raises:
        ConfigurationError: If the job could not work as asked for.
        LaunchError: If sbatch refuses it.
    """
    flags = SLURM.parse(_joined(arguments))
    folder = Path(flags.envlab_path or ".").expanduser().absolute()
    requeue = [] if flags.no_requeue else ["--requeue"]
    job = describe(SLURM, flags, name=flags.job_name, folder=folder, added=requeue)
    _check(flags)
    flags.envlab_path = str(folder)
    flags.env_activate_path = _activation(flags.env_activate_path)
    flags.seeds = _seeds(flags.seeds, job.train)
    script = _script(job, flags, ["envlab", "cluster", "slurm", *arguments])
    if flags.cpus_per_task is None and not any("--exclusive" in word for word in flags.sbatch):
        say("Without --cpus-per-task, or --sbatch=--exclusive, most clusters give one core a node.")
    logs = shlex.quote(str(folder / flags.log_dir))
    return SLURM.deliver(
        script,
        flags,
        path=None,
        start=f"mkdir -p {logs} && sbatch",
        submit=lambda: _submit(script, job, flags),
    )


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the words with ``--sbatch --x`` as one: argparse would read the second as a flag."""
    words: list[str] = []
    for word in arguments:
        if words and words[-1] in ("--sbatch", "--srun"):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _check(flags: argparse.Namespace) -> None:
    """Refuse flags that contradict each other."""
    limit = None if flags.time is None else _seconds(flags.time)
    if limit is not None and limit <= flags.notice_s:
        raise ConfigurationError(
            f"--time {flags.time} is {limit} s, which ends before the job is warned, "
            f"{flags.notice_s} s before. Give it more time, or a smaller --notice-s."
        )
    own = {flag.spelled for flag in PASSED_ON}
    own |= {"--nodes", "--gpus-per-node", "--output", "--array", "--signal", "--chdir"}
    for word in flags.sbatch:
        if word.partition("=")[0].split()[0] in own:
            raise ConfigurationError(
                f"--sbatch is {word!r}, which the script sets itself. Use the flag of envlab "
                "cluster slurm instead; see --help."
            )


def _seconds(time: str) -> int | None:
    """Return a time limit in seconds, None for no limit.

    Slurm reads ``m``, ``m:s``, ``h:m:s``, ``d-h``, ``d-h:m`` and ``d-h:m:s``.
    """
    if time.upper() in ("UNLIMITED", "INFINITE"):
        return None
    days, has_days, rest = time.rpartition("-")
    numbers = [int(number) for number in rest.split(":")]
    if not has_days and len(numbers) < 3:
        numbers.insert(0, 0)
    hours, minutes, seconds = [*numbers, 0, 0][:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


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
            "--seeds sets the seed of every run, but train.py is also given a seed. Leave out one "
            "of them."
        )
    if (run_id := run_id_of(train)) is not None:
        raise ConfigurationError(
            f"--seeds asks for several runs, but --run_id {run_id} would be the same for all. "
            "Leave it out: a requeued job finds its run by Slurm's number."
        )
    return seeds


def _activation(given: str | None) -> str | None:
    """Return the file to source: the given one (empty: none), or the current environment's."""
    if given is not None:
        return os.path.expanduser(given) or None
    path = Path(sys.prefix, "bin/activate")
    return str(path) if sys.prefix != sys.base_prefix and path.is_file() else None


def _script(job: Job, flags: argparse.Namespace, command: Sequence[str]) -> str:
    """Return the script: plain bash, readable and editable."""
    activate = "# No environment to activate: python is the one on PATH."
    if flags.env_activate_path is not None:
        activate = f"# shellcheck source=/dev/null\nsource {shlex.quote(flags.env_activate_path)}"
    srun = ["--ntasks-per-node=1", "--label", "--kill-on-bad-exit=0", "--wait=300", *flags.srun]
    if flags.cpus_per_task is not None:  # since Slurm 22.05 srun does not inherit it from sbatch
        srun.insert(4, f"--cpus-per-task={flags.cpus_per_task}")
    torchrun = job.torchrun(
        nodes='"$SLURM_NNODES"',
        is_first='"$SLURMD_NODENAME" = "$FIRST_NODE"',
        processes=str(job.processes_per_node),
        endpoint='"$FIRST_NODE:$MEETING_PORT"',
        meeting_name='"$MEETING_NAME"',
        options="--signals_to_handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 ",
    )
    values = {
        "command": shlex.join(command),
        "directives": "\n".join(f"#SBATCH {word}" for word in _directives(job, flags)),
        "activate": activate,
        "seeds": _seed_lines(flags.seeds, job.train),
        "train": "\n".join(map(shlex.quote, job.train)),
        "srun": shlex.join(srun),
        "torchrun": torchrun,
    }
    return fill("slurm_job.sh", values)


def _directives(job: Job, flags: argparse.Namespace) -> list[str]:
    log = f"{flags.log_dir}/%x-{'%A_%a' if flags.seeds else '%j'}.out"
    options = {
        "--nodes": job.nodes,
        "--ntasks-per-node": 1,
        "--gpus-per-node": flags.gpus_per_node if job.gpus_per_node else None,
        **{flag.spelled: getattr(flags, flag.name) for flag in PASSED_ON},
        "--job-name": job.name,
        "--array": f"0-{len(flags.seeds) - 1}" if flags.seeds else None,
        "--chdir": flags.envlab_path,
        "--output": log,
        "--open-mode": "append",
        "--signal": f"USR1@{job.notice_s}",
    }
    words = [f"{name}={_quoted(str(one))}" for name, one in options.items() if one is not None]
    return [*words, "--no-requeue" if flags.no_requeue else "--requeue", *flags.sbatch]


def _quoted(value: str) -> str:
    """Quote a directive's value, in sbatch's syntax; it contains no quotes."""
    return value if _PLAIN.fullmatch(value) else f'"{value}"'


def _seed_lines(seeds: Sequence[int], train: Sequence[str]) -> str:
    if not seeds:
        return ""
    lines = [
        "",
        "# The tasks of the array differ by their seed.",
        f"seeds=({' '.join(map(str, seeds))})",
        "seed=${seeds[SLURM_ARRAY_TASK_ID]}",
        'train+=(--seed="$seed")',
    ]
    if not any(word.partition("=")[0] == "--run_name" for word in train):
        lines.append('train+=(--run_name="seed$seed")')
    return "\n".join([*lines, ""])


def _submit(script: str, job: Job, flags: argparse.Namespace) -> int:
    """Hand the script to sbatch, and print how to watch and stop the job."""
    for what, path in (("folder", flags.envlab_path), ("file to source", flags.env_activate_path)):
        if path is not None and not Path(path).exists():
            raise ConfigurationError(
                f"The {what} {path} does not exist here. Name another one, or write the script "
                "with --output FILE and submit it where it does."
            )
    logs = Path(flags.envlab_path, flags.log_dir)
    try:
        logs.mkdir(parents=True, exist_ok=True)  # without it the job would end silently
    except OSError as error:
        raise LaunchError(f"The job could not be submitted: {error}.") from None
    answer = submit_by(["sbatch", "--parsable"], script, cwd=flags.envlab_path)
    number = answer.strip().partition(";")[0]
    runs = f"{len(flags.seeds)} runs of " if flags.seeds else ""
    print(f"Submitted job {number}: {runs}{job.size}.")
    print(f"  look   squeue --job {number}; tail -F {shlex.quote(str(logs))}/*-{number}*.out")
    print(f"  stop   scancel {number}")
    return 0
