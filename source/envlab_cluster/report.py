"""The state of a run from its hosts' reports, and a copy of its run directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlab.errors import RunDirectoryError
from envlab_cluster.hosts import Host
from envlab_cluster.snapshot import rsync
from envlab_cluster.ssh import Answer, HostError, Ssh, on_all
from envlab_cluster.state import RunState


@dataclass(frozen=True, kw_only=True)
class Load:
    """Resources that a process uses."""

    pid: int
    cpu: float
    """Cores in use, over half a second."""
    memory_mb: int


@dataclass(kw_only=True)
class HostReport:
    """The state of a run on one host."""

    alive: bool
    exit_code: int | None
    last_line: str
    ranks: dict[int, Load]
    """Ranks' processes on this host."""
    lines: dict[int, str]
    """The last line that each process printed, by its number on the host."""
    gpus: list[str] = field(default_factory=list)
    run: str = ""
    """The run directory, if it is on this host."""
    manifest: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    heartbeats: dict[str, Any] = field(default_factory=dict)


def observe(run: RunState, ssh: Ssh) -> dict[Host, HostReport | HostError]:
    """Ask all hosts at the same time, and record exit codes in the run."""

    def ask(host: Host) -> HostReport:
        node = run.node_of(host)
        words = [node.path, node.folder, run.token(node), run.run_id]
        report = _parse(ssh.run(host, "status.sh", *words, is_expendable=True))
        if report.exit_code is not None:
            node.exit_code = report.exit_code
        return report

    reports = on_all(run.hosts, ask)
    if not any(isinstance(one, HostError) or one.alive or one.ranks for one in reports.values()):
        run.status = "ended"
    return reports


def heartbeats_of(reports: Mapping[Host, HostReport | HostError]) -> dict[int, dict[str, Any]]:
    """Return the watchdog's last record of each rank, from the host with the run directory."""
    for report in reports.values():
        if isinstance(report, HostReport) and report.heartbeats:
            return {int(heartbeat["rank"]): heartbeat for heartbeat in report.heartbeats["ranks"]}
    return {}


def fetch_here(run: RunState, ssh: Ssh, say: Callable[[str], None]) -> None:
    """Copy a run's directory from its host to below the current folder; print its place.

    Raises:
        RunDirectoryError: If no host that answers has one.
        HostError: If it cannot be copied.
    """
    reports = observe(run, ssh)
    found = {
        host: Path(one.run)
        for host, one in reports.items()
        if isinstance(one, HostReport) and one.run
    }
    if not found:
        silent = " ".join(
            str(report) for report in reports.values() if isinstance(report, HostError)
        )
        raise RunDirectoryError(f"No host has a run directory of {run.id} yet. {silent}".strip())
    for host, path in found.items():
        copy = path.relative_to(run.node_of(host).path)
        copy.mkdir(parents=True, exist_ok=True)
        rsync(ssh, host, ["-t", f"host:{path}/", f"{copy.absolute()}/"])
        say(f"Run directory: {copy}")


def _parse(answer: Answer) -> HostReport:
    values = answer.values
    lines = [value.partition(" ") for key, value in answer.pairs if key == "line"]
    return HostReport(
        alive=values.get("alive") == "1",
        exit_code=answer.exit_code,
        last_line=values.get("last", ""),
        ranks=loads(answer),
        lines={int(number): text for number, _, text in lines},
        gpus=[value for key, value in answer.pairs if key == "gpu"],
        run=values.get("run", ""),
        manifest=_json(values.get("manifest", "")),
        metrics=_json(values.get("metrics", "")),
        heartbeats=_json(values.get("heartbeats", "")),
    )


def loads(answer: Answer) -> dict[int, Load]:
    """Return the load of each rank from two readings of /proc/<pid>/stat; see proc(5)."""
    hertz, page_kb = int(answer.values["hertz"]), int(answer.values["page_kb"])
    looks: dict[tuple[int, int], list[tuple[float, int, int, int]]] = {}
    for key, value in answer.pairs:
        words = value.split(" ")
        if key != "process" or not words[2].isdigit():
            continue
        stat = words[3:]
        ticks, pages = int(stat[11]) + int(stat[12]), int(stat[21])
        process = int(stat[19]), int(words[1])  # start time and number
        looks.setdefault(process, []).append((float(words[0]), int(words[2]), ticks, pages))
    found: dict[int, Load] = {}
    for process in sorted(looks, reverse=True):  # a rank's helpers are younger than the rank
        (before, rank, first, _), (after, _, second, pages) = looks[process][0], looks[process][-1]
        cpu = (second - first) / hertz / (after - before) if after > before else 0.0
        found[rank] = Load(pid=process[1], cpu=cpu, memory_mb=pages * page_kb // 1024)
    return found


def _json(text: str) -> dict[str, Any]:
    """Return a JSON object; an empty one if the file was being written."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
