"""What an sbatch script of a training run says: plain bash, to be read and changed by hand."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence

from envlab_cluster.job import Job, fill, spelled

OPTIONS = {
    "partition": "partition (queue)",
    "account": "account that is charged",
    "qos": "quality of service",
    "time": "time limit, such as 04:00:00 or 2-12:00:00",
    "cpus_per_task": "CPU cores a node",
    "mem": "memory a node, such as 64G",
    "constraint": "features that nodes must have",
    "exclude": "nodes not to be used",
    "job_name": "name of the job (default: the task)",
}
"""Slurm's options that are passed on, and what they say."""
_PLAIN = re.compile(r"[\w./:,=@%+-]+")


def job_script(job: Job, flags: argparse.Namespace, command: Sequence[str]) -> str:
    """Return the text of the script.

    Args:
        job: What is trained, and on what.
        flags: Those of ``envlab cluster slurm``, checked and completed.
        command: The command that asked for it.
    """
    values = {
        "command": shlex.join(command),
        "directives": "\n".join(f"#SBATCH {word}" for word in _directives(job, flags)),
        "activate": _activation(flags.env_activate_path),
        "seeds": _seeds(flags.seeds, job.train),
        "train": "\n".join(map(shlex.quote, job.train)),
        "srun": shlex.join(_srun(flags)),
        "processes": str(job.processes_per_node),
        "max_restarts": str(job.max_restarts),
        "shutdown_timeout_s": str(job.shutdown_timeout_s),
    }
    return fill("slurm_job.sh", values)


def _directives(job: Job, flags: argparse.Namespace) -> list[str]:
    log = f"{flags.log_dir}/%x-{'%A_%a' if flags.seeds else '%j'}.out"
    options = {
        "--nodes": job.nodes,
        "--ntasks-per-node": 1,
        "--gpus-per-node": flags.gpus_per_node if job.gpus_per_node else None,
        **{spelled(name): getattr(flags, name) for name in OPTIONS},
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
    """Quote a directive's value, as sbatch reads it; it holds no quotes of its own."""
    return value if _PLAIN.fullmatch(value) else f'"{value}"'


def _activation(file: str | None) -> str:
    if file is None:
        return "# No environment to activate: python is the one on PATH."
    return f"# shellcheck source=/dev/null\nsource {shlex.quote(file)}"


def _seeds(seeds: Sequence[int], train: Sequence[str]) -> str:
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


def _srun(flags: argparse.Namespace) -> list[str]:
    words = ["--ntasks-per-node=1", "--label", "--kill-on-bad-exit=0", "--wait=300"]
    if flags.cpus_per_task is not None:  # since Slurm 22.05 srun does not take it from sbatch
        words.append(f"--cpus-per-task={flags.cpus_per_task}")
    return [*words, *flags.srun]
