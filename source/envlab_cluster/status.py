"""``envlab cluster status``: a table of a run's hosts and ranks."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tabulate import tabulate

from envlab.errors import ConfigurationError
from envlab_cluster.arguments import VerbParser, check_positive, ssh_of
from envlab_cluster.attach import attend
from envlab_cluster.hosts import Host
from envlab_cluster.report import HostReport, fetch_here, heartbeats_of, observe
from envlab_cluster.ssh import HostError, Ssh
from envlab_cluster.state import Node, RunState, all_runs, find_run

DESCRIPTION = (
    "Show the state of a run: for each host and rank whether its process is alive, phase and "
    "iteration, use of CPU, memory and GPUs, exit code, and the last line of its log."
)
HEADER = ("host", "rank", "state", "phase", "iteration", "cpu", "memory", "exit", "last line")
LINE_WIDTH = 60


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster status``; return 0 if all hosts answered."""
    parser = VerbParser("envlab cluster status", DESCRIPTION, "envlab cluster status --watch")
    parser.add_run_flag()
    parser.switch("--all", "list all runs that are known here")
    parser.value(
        "--watch",
        nargs="?",
        type=float,
        const=2.0,
        metavar="SECONDS",
        help="refresh it every SECONDS (2) until the run has ended",
    )
    parser.switch("--follow", "show the logs of all hosts, as launch does")
    parser.switch("--fetch", "copy the run directory to ./logs")
    parser.add_ssh_flags()
    flags = parser.parse_args(arguments)
    check_positive(flags, "watch")
    if flags.all:
        return _list_runs(flags)
    if flags.follow and flags.watch is not None:
        raise ConfigurationError("--follow shows logs and --watch the table: give one of them.")
    run = find_run(flags.run)
    if flags.dry_run:
        print(f"Would ask {run.host_names} for run {run.id}.")
        return 0
    ssh = ssh_of(flags, run)
    if flags.follow:
        return attend(run, ssh, fetch=flags.fetch, say=functools.partial(print, flush=True))
    reports = _show(run, ssh)
    try:
        while flags.watch is not None and run.status != "ended":
            time.sleep(flags.watch)
            reports = _show(run, ssh, before="\x1b[2J\x1b[H")
    except KeyboardInterrupt:  # the user has seen enough
        print()
    if flags.fetch:
        fetch_here(run, ssh, print)
    return 1 if any(isinstance(report, HostError) for report in reports.values()) else 0


def _show(run: RunState, ssh: Ssh, before: str = "") -> dict[Host, HostReport | HostError]:
    """Ask the hosts and print the table."""
    reports = observe(run, ssh)
    run.update()
    print(f"{before}{compose_status(run, reports)}", flush=True)
    return reports


def compose_status(run: RunState, reports: Mapping[Host, HostReport | HostError]) -> str:
    """Return the table, with the state of the whole run above it."""
    heartbeats = heartbeats_of(reports)
    rows: list[Sequence[str]] = []
    for node in run.nodes:
        elsewhere = _running(report for host, report in reports.items() if host != node.host)
        here = {rank: heartbeat for rank, heartbeat in heartbeats.items() if rank not in elsewhere}
        rows += _rows(node, reports[node.host], here)
    table = tabulate([HEADER, *rows], tablefmt="plain", disable_numparse=True)
    return "\n".join(
        [*_summary(run, reports), *map(str.rstrip, table.split("\n")), *_notes(reports)]
    )


def _summary(run: RunState, reports: Mapping[Host, HostReport | HostError]) -> list[str]:
    lines = [f"Run {run.id}, started {run.created_at}: {' '.join(run.command)}"]
    for host, report in reports.items():
        if isinstance(report, HostReport) and report.run:
            done = ""
            if report.metrics:
                done = ": iteration {iteration}, {frames} frames, {fps:.0f} frames per second"
                done = done.format(**report.metrics)
            lines.append(f"{report.manifest.get('status', 'running')}{done}")
            lines.append(f"{host.name}:{report.run}")
            if error := report.manifest.get("error"):
                lines.append(f"error: {error}")
    return lines


def _running(reports: Iterable[HostReport | HostError]) -> set[int]:
    """Return the ranks whose processes run on hosts."""
    return {rank for report in reports if isinstance(report, HostReport) for rank in report.ranks}


def _rows(
    node: Node, report: HostReport | HostError, heartbeats: Mapping[int, dict[str, Any]]
) -> list[Sequence[str]]:
    """Return the rows of a host's ranks, or one for the host if no rank is known."""
    ranks = {
        rank for rank, heartbeat in heartbeats.items() if _is_at(node, report, rank, heartbeat)
    }
    code = "" if node.exit_code is None else str(node.exit_code)
    if isinstance(report, HostError):
        rest = ("", "", code, cut(str(report)))
        rows = [
            (node.host.name, str(rank), "unreachable", *_progress(heartbeats.get(rank)), *rest)
            for rank in sorted(ranks)
        ]
        return [*rows] or [(node.host.name, "?", "unreachable", "", "", *rest)]
    ranks |= set(report.ranks)
    if not ranks:
        state = "running" if report.alive else "ended"
        # A process's last line before it died is more informative than torchrun's summary.
        said = next((line for line in report.lines.values() if line), report.last_line)
        return [(node.host.name, "-", state, "", "", "", "", code, cut(said))]
    planned = range(node.first_rank, node.first_rank + node.num_processes)
    first = node.first_rank if ranks <= set(planned) else min(ranks)
    found: list[Sequence[str]] = []
    for rank in sorted(ranks):
        load = report.ranks.get(rank)
        if load is not None:
            state, used = "running", (f"{load.cpu:.0%}", f"{load.memory_mb} MB")
        else:
            state, used = "gone" if report.alive else "ended", ("", "")
        line = cut(report.lines.get(rank - first, ""))
        progress = _progress(heartbeats.get(rank), is_over=node.exit_code == 0)
        found.append((node.host.name, str(rank), state, *progress, *used, code, line))
    return found


def _is_at(
    node: Node, report: HostReport | HostError, rank: int, heartbeat: Mapping[str, Any]
) -> bool:
    """Return whether a rank belongs to a node: torchrun numbers ranks node by node."""
    if isinstance(report, HostReport) and rank in report.ranks:
        return report.ranks[rank].pid == heartbeat["pid"]
    return node.first_rank <= rank < node.first_rank + node.num_processes


def _progress(heartbeat: Mapping[str, Any] | None, *, is_over: bool = False) -> tuple[str, str]:
    """Return phase and iteration; neither for a rank that has ended well."""
    if heartbeat is None or is_over:
        return "", ""
    since = heartbeat["seconds_since_progress"]
    late = f" ({since:.0f} s)" if since > 10.0 else ""
    return f"{heartbeat['phase']}{late}", str(heartbeat["iteration"])


def cut(text: str) -> str:
    """Return a text in one line of a table."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"


def _notes(reports: Mapping[Host, HostReport | HostError]) -> list[str]:
    notes = [str(report) for report in reports.values() if isinstance(report, HostError)]
    for host, report in reports.items():
        for gpu in report.gpus if isinstance(report, HostReport) else []:
            index, used, memory, total = (word.strip() for word in gpu.split(","))
            notes.append(f"{host.name}: GPU {index} at {used} %, {memory} of {total} MB")
    return ["", *notes] if notes else []


def _list_runs(flags: argparse.Namespace) -> int:
    if flags.run is not None or flags.watch is not None or flags.fetch or flags.follow:
        raise ConfigurationError("--all lists runs: leave the other flags out.")
    for run in all_runs():
        if run.status != "ended" and not flags.dry_run:
            observe(run, ssh_of(flags, run))
            run.update()
        print(f"{run.id}  {run.status:<8}  {run.host_names}: {' '.join(run.command)}")
    return 0
