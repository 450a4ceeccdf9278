"""``envlab cluster kill``: end a run on every host, and make sure that nothing of it is left."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from envlab.cluster.arguments import (
    add_run_flag,
    add_ssh_flags,
    check_positive,
    ssh_of,
    verb_parser,
)
from envlab.cluster.state import RunState, all_runs, find_run
from envlab.cluster.stopping import GRACE_S, describe, is_over, stop_run
from envlab.errors import ConfigurationError


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster kill``; return 0 if nothing of the run is left for certain."""
    flags = _parser().parse_args(list(arguments))
    check_positive(flags, "grace_s")
    if flags.all and flags.run is not None:
        raise ConfigurationError("--all and --run both name runs: give one of them.")
    runs = all_runs() if flags.all else [find_run(flags.run, prefer_living=True)]
    if flags.dry_run:
        for run in runs:
            print(f"Would end run {run.id} on {_names(run)}, and delete {run.file}.")
        return 0
    if not flags.yes and not sys.stdin.isatty():
        raise ConfigurationError(
            f"There is no terminal to ask whether to stop run {runs[0].id} on {_names(runs[0])}: "
            "give --yes."
        )
    return max([_kill(run, flags) for run in runs], default=0)


def _kill(run: RunState, flags: argparse.Namespace) -> int:
    print(f"Run {run.id} on {_names(run)}: {' '.join(run.command)}")
    if not flags.yes and not _agrees("Stop it?"):
        return 0
    answers = stop_run(run, ssh_of(flags, run), flags.grace_s)
    run.save()
    for host, answer in answers.items():
        print(describe(host, answer))
    if not is_over(answers.values()):
        print(f"Not all of it has ended for certain: run this command again. {run.file} stays.")
        return 1
    if flags.yes or _agrees(f"Delete {run.file}?"):
        run.forget()
    return 0


def _names(run: RunState) -> str:
    return ", ".join(host.name for host in run.hosts)


def _agrees(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _parser() -> argparse.ArgumentParser:
    parser = verb_parser(
        "kill",
        "End a run on every host: TERM, upon which it saves a checkpoint, then KILL. It says for "
        "each host whether anything is left, and offers to delete the run's state file.",
        "envlab cluster kill --yes",
    )
    add_run_flag(parser)
    parser.add_argument("--all", action="store_true", help="all runs that are known here")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--grace_s",
        "--timeout_s",
        type=int,
        default=GRACE_S,
        metavar="SECONDS",
        help="time between TERM and KILL (default: %(default)s)",
    )
    add_ssh_flags(parser)
    return parser
