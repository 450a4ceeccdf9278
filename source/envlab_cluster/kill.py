"""``envlab cluster kill``: end a run on every host, and make sure that no process is left."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from envlab.errors import ConfigurationError
from envlab_cluster.arguments import VerbParser, check_positive, hosts_of, ssh_of
from envlab_cluster.hosts import Host
from envlab_cluster.processes import GRACE_S, describe, is_over, stop_run
from envlab_cluster.report import fetch_here
from envlab_cluster.ssh import Answer, Ssh, on_all, results_of
from envlab_cluster.state import Node, RunState, all_runs, find_run

DESCRIPTION = (
    "End a run on every host: TERM, upon which it saves a checkpoint, then KILL. It reports for "
    "each host whether any process is left, and offers to delete the run's state file. With "
    "--runs_on or --hosts: all runs on these hosts, whoever launched them."
)


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster kill``."""
    parser = VerbParser("envlab cluster kill", DESCRIPTION, "envlab cluster kill --yes")
    add_flags(parser)
    return run(parser.parse_args(arguments))


def add_flags(parser: VerbParser) -> None:
    """Add the flags of the verb."""
    parser.add_run_flag()
    parser.switch("--all", "all runs that are known here")
    parser.switch("--yes", "do not ask")
    parser.switch("--fetch", "then copy the run directory to ./logs")
    parser.seconds("--grace_s", "--timeout_s", default=GRACE_S, help="time between TERM and KILL")
    parser.add_host_flags()


def run(flags: argparse.Namespace) -> int:
    """End the runs that the flags name; return 0 if it is certain that no process is left."""
    check_positive(flags, "grace_s")
    if flags.all and flags.run is not None:
        raise ConfigurationError("--all and --run both name runs: give one of them.")
    is_known = flags.runs_on is None and flags.hosts is None
    runs = _known_runs(flags) if is_known else _found_runs(flags)
    if not runs:
        print("No run is known here." if is_known else "Nothing runs there.")
    if flags.dry_run:
        for one in runs:
            file = f", and delete {one.file}" if is_known else ""
            print(f"Would end run {one.id} on {one.host_names}{file}.")
        return 0
    if runs and not flags.yes and not sys.stdin.isatty():
        raise ConfigurationError(
            f"There is no terminal to ask whether to stop run {runs[0].id} on "
            f"{runs[0].host_names}: give --yes."
        )
    return max([_kill(one, flags, is_known=is_known) for one in runs], default=0)


def _known_runs(flags: argparse.Namespace) -> list[RunState]:
    """Return the runs that the flags name, among those with state files."""
    if flags.envlab_path is not None:
        raise ConfigurationError("--envlab_path goes with --runs_on or --hosts: give one of them.")
    return all_runs() if flags.all else [find_run(flags.run, prefer_living=True)]


def _found_runs(flags: argparse.Namespace) -> list[RunState]:
    """Return the runs that the flags name, among those that run on the hosts."""
    if flags.fetch:
        raise ConfigurationError("--fetch is for your own runs: leave --runs_on and --hosts out.")
    runs = find_living(hosts_of(flags), ssh_of(flags))
    ids = ", ".join(one.id for one in runs) or "none"
    if flags.run is not None:
        exact = [one for one in runs if one.id == flags.run]
        runs = exact or [one for one in runs if one.id.startswith(flags.run)]
        if not runs:
            raise ConfigurationError(f"--run is {flags.run!r}, but what runs there is: {ids}.")
    if len(runs) > 1 and not flags.all:
        ids = ", ".join(one.id for one in runs)
        raise ConfigurationError(
            f"Several runs are known: {ids}. Name one by --run, or give --all."
        )
    return runs


def find_living(hosts: Sequence[Host], ssh: Ssh) -> list[RunState]:
    """Return the runs on hosts, with or without a state file here, the newest first.

    Fields that are not needed to end a run stay empty.

    Raises:
        EnvlabError: If a host does not answer.
    """

    def look(host: Host) -> Answer:
        return ssh.run(host, "find.sh", host.path, is_expendable=True)

    nodes: dict[str, list[Node]] = {}
    for host, answer in results_of(on_all(hosts, look)).items():
        path = answer.values["path"]
        for token in [value for key, value in answer.pairs if key == "found"]:
            run_id, _, rank = token.rpartition("/")
            folder = f"{path}/runs/{run_id}"
            node = Node(host=host, node_rank=int(rank), path=path, folder=folder)
            nodes.setdefault(run_id, []).append(node)
    command = ["found on its hosts"]
    return [
        RunState(id=run_id, command=command, run_id=run_id, ssh_cmd=ssh.command, nodes=parts)
        for run_id, parts in sorted(nodes.items(), reverse=True)
    ]


def _kill(run: RunState, flags: argparse.Namespace, *, is_known: bool) -> int:
    print(f"Run {run.id} on {run.host_names}: {' '.join(run.command)}")
    if not flags.yes and not _agrees("Stop it?"):
        return 0
    ssh = ssh_of(flags, run)
    try:
        answers = stop_run(run, ssh, flags.grace_s)
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
        print(f"Some of it may still be running: run this command again.{stays}")
        return 1
    if flags.fetch:
        fetch_here(run, ssh, print)
    if is_known and (flags.yes or _agrees(f"Delete {run.file}?")):
        run.forget()
    return 0


def _agrees(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
