"""``envlab cluster kill``: end a run on every host, and make sure that nothing of it is left."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from envlab.cluster.arguments import (
    add_host_flags,
    add_run_flag,
    check_positive,
    hosts_of,
    ssh_of,
    verb_parser,
)
from envlab.cluster.fetch import fetch_here
from envlab.cluster.find import find_living
from envlab.cluster.state import RunState, all_runs, find_run
from envlab.cluster.stop import GRACE_S, describe, is_over, stop_run
from envlab.errors import ConfigurationError


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster kill``; return 0 if nothing of the run is left for certain."""
    flags = _parser().parse_args(list(arguments))
    check_positive(flags, "grace_s")
    if flags.all and flags.run is not None:
        raise ConfigurationError("--all and --run both name runs: give one of them.")
    is_known = flags.runs_on is None and flags.hosts is None
    runs = _known_runs(flags) if is_known else _found_runs(flags)
    if not runs:
        print("No run is known here." if is_known else "Nothing runs there.")
    if flags.dry_run:
        for run in runs:
            file = f", and delete {run.file}" if is_known else ""
            print(f"Would end run {run.id} on {_names(run)}{file}.")
        return 0
    if runs and not flags.yes and not sys.stdin.isatty():
        raise ConfigurationError(
            f"There is no terminal to ask whether to stop run {runs[0].id} on {_names(runs[0])}: "
            "give --yes."
        )
    return max([_kill(run, flags, is_known=is_known) for run in runs], default=0)


def _known_runs(flags: argparse.Namespace) -> list[RunState]:
    """Return the runs that the flags name, of those that state files tell of."""
    if flags.envlab_path is not None:
        raise ConfigurationError("--envlab_path goes with --runs_on or --hosts: give one of them.")
    return all_runs() if flags.all else [find_run(flags.run, prefer_living=True)]


def _found_runs(flags: argparse.Namespace) -> list[RunState]:
    """Return the runs that the flags name, of those that run on the hosts."""
    if flags.fetch:
        raise ConfigurationError(
            "--fetch is for runs of your own: leave --runs_on and --hosts out."
        )
    runs = find_living(hosts_of(flags), ssh_of(flags))
    ids = ", ".join(run.id for run in runs) or "none"
    if flags.run is not None:
        runs = [run for run in runs if run.id.startswith(flags.run)]
        if not runs:
            raise ConfigurationError(f"--run is {flags.run!r}, but what runs there is: {ids}.")
    elif len(runs) > 1 and not flags.all:
        raise ConfigurationError(
            f"Several runs are there: {ids}. Name one by --run, or give --all."
        )
    return runs


def _kill(run: RunState, flags: argparse.Namespace, *, is_known: bool) -> int:
    print(f"Run {run.id} on {_names(run)}: {' '.join(run.command)}")
    if not flags.yes and not _agrees("Stop it?"):
        return 0
    try:
        answers = stop_run(run, ssh_of(flags, run), flags.grace_s)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted: run {run.id} may still be ending. See envlab cluster status."
        ) from None
    if is_known:
        run.update()
    for host, answer in answers.items():
        print(describe(host, answer))
    if not is_over(answers.values()):
        stays = f" {run.file} stays." if is_known else ""
        print(f"Not all of it has ended for certain: run this command again.{stays}")
        return 1
    if flags.fetch:
        fetch_here(run, ssh_of(flags, run), print)
    if is_known and (flags.yes or _agrees(f"Delete {run.file}?")):
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
        "each host whether anything is left, and offers to delete the run's state file. With "
        "--runs_on or --hosts: what runs there, whoever launched it.",
        "envlab cluster kill --yes",
    )
    add_run_flag(parser)
    parser.add_argument("--all", action="store_true", help="all runs that are known here")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--fetch", action="store_true", help="then copy the run directory to ./logs"
    )
    parser.add_argument(
        "--grace_s",
        "--timeout_s",
        type=int,
        default=GRACE_S,
        metavar="SECONDS",
        help="time between TERM and KILL (default: %(default)s)",
    )
    add_host_flags(parser)
    return parser
