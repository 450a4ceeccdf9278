"""What an sbatch script of a training run says: plain bash, to be read and changed by hand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

MARK = "# Made by: "
"""How the second line begins of every script that was made here."""

_PLAIN = re.compile(r"[\w./:,=@%+-]+")


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """A training run as a Slurm job."""

    command: Sequence[str]
    """The command that asked for it."""
    train: Sequence[str]
    """What torchrun runs: a script, or ``-m`` and a module, and its arguments."""
    folder: str
    """Where the job starts: an absolute path."""
    log_folder: str
    """Where its output goes: a path from there."""
    activate: str | None = None
    """A file that is sourced first."""
    nodes: int = 1
    gpus: str | None = None
    """GPUs a node: ``4`` or ``a100:4``; None for none."""
    processes: int = 1
    """Processes a node."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Slurm's own, by their long names, such as ``cpus-per-task``."""
    sbatch: Sequence[str] = ()
    """Further directives, as given."""
    srun: Sequence[str] = ()
    """Further options of srun, as given."""
    seeds: Sequence[int] = ()
    """One run for each, as a job array; none: one run."""
    requeue: bool = True
    notice_s: int = 120
    """How long before its end Slurm signals the job."""
    max_restarts: int = 0

    @property
    def log(self) -> str:
        """The log file's name, in Slurm's pattern."""
        return f"{self.log_folder}/%x-{'%A_%a' if self.seeds else '%j'}.out"

    @property
    def shutdown_timeout_s(self) -> int:
        """How long processes may take to save: the notice, less the time to be killed in."""
        return self.notice_s - self.notice_s // 6


def job_script(job: SlurmJob) -> str:
    """Return the text of the script."""
    template = files("envlab.cluster").joinpath("slurm_job.sh").read_text(encoding="utf-8")
    values = {
        "command": shlex.join(job.command),
        "directives": "\n".join(f"#SBATCH {word}" for word in _directives(job)),
        "activate": _activation(job),
        "seeds": _seeds(job),
        "train": "\n".join(f"    {shlex.quote(word)}" for word in job.train),
        "srun": " ".join(_srun(job)),
        "processes": str(job.processes),
        "max_restarts": str(job.max_restarts),
        "shutdown_timeout_s": str(job.shutdown_timeout_s),
    }
    return re.sub(r"@(\w+)@", lambda match: values[match[1]], template)


def _directives(job: SlurmJob) -> list[str]:
    options: dict[str, str] = {"nodes": str(job.nodes), "ntasks-per-node": "1"}
    if job.gpus is not None:
        options["gpus-per-node"] = job.gpus
    options |= job.options
    if job.seeds:
        options["array"] = f"0-{len(job.seeds) - 1}"
    options |= {"chdir": job.folder, "output": job.log, "open-mode": "append"}
    options["signal"] = f"USR1@{job.notice_s}"
    words = [f"--{name}={_quoted(value)}" for name, value in options.items()]
    return [*words, "--requeue" if job.requeue else "--no-requeue", *job.sbatch]


def _quoted(value: str) -> str:
    """Quote a directive's value, as sbatch reads it; it holds no quotes of its own."""
    return value if _PLAIN.fullmatch(value) else f'"{value}"'


def _activation(job: SlurmJob) -> str:
    if job.activate is None:
        return "# No environment to activate: python is the one on PATH."
    return f"# shellcheck source=/dev/null\nsource {shlex.quote(job.activate)}"


def _seeds(job: SlurmJob) -> str:
    if not job.seeds:
        return ""
    lines = [
        "",
        "# The tasks of the array differ by their seed.",
        f"seeds=({' '.join(map(str, job.seeds))})",
        "seed=${seeds[SLURM_ARRAY_TASK_ID]}",
        'train+=(--seed="$seed")',
    ]
    if not any(word.partition("=")[0] == "--run_name" for word in job.train):
        lines.append('train+=(--run_name="seed$seed")')
    return "\n".join([*lines, ""])


def _srun(job: SlurmJob) -> list[str]:
    words = ["--ntasks-per-node=1", "--label", "--kill-on-bad-exit=0", "--wait=300"]
    cores = job.options.get("cpus-per-task")
    if cores is not None:  # since Slurm 22.05 srun does not take it from sbatch
        words.append(f"--cpus-per-task={cores}")
    return [*words, *job.srun]
