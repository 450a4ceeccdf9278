"""The doctor on several processes: each node's own report, and communication between ranks.

Ranks should not differ in versions, files, settings, and clocks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from envlab.commit import git_state
from envlab.distributed.audit import name_ranks, rank_list
from envlab.distributed.context import DistributedContext
from envlab.distributed.interface import VARIABLE, interfaces
from envlab.distributed.program import configure_logging
from envlab.distributed.ranks import launched_rank
from envlab.doctor._local import examine_machine_of, source_digests
from envlab.doctor.collectives import Watch, findings_of_measures, measure
from envlab.doctor.libraries import versions
from envlab.doctor.machine import driver_version
from envlab.doctor.report import Finding, State, under
from envlab.libraries import packages_alike

CLOCKS_S = 1.0
"""Larger differences of clocks make logs and manifests misleading."""
_SETTINGS = ("NCCL_", "TORCH_", "OMP_", "MKL_", "XLA_", "MUJOCO_GL", "CUDA_LAUNCH_BLOCKING")
"""Prefixes of environment variables that should be the same on all ranks."""
_OWN = ("NCCL_SOCKET_IFNAME", VARIABLE)
"""Those of them that may differ between nodes."""


def rank_facts(context: DistributedContext) -> dict[str, dict[str, str]]:
    """Return this rank's facts for the comparison: kind of fact, name, value."""
    git = git_state()
    settings = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SETTINGS) and name not in _OWN
    }
    return {
        "version": {name: version or "absent" for name, version in versions().items()},
        "files": source_digests(),
        "commit": {"commit": "none" if git is None else git["commit"][:12]},
        "setting": settings,
        "machine": {
            "device": context.device.type,
            "driver": driver_version() or "none",
            "system": platform.machine(),
            "CPU threads": str(context.num_threads),
        },
        "place": {
            "host": socket.gethostname(),
            "device": str(context.device),
            "interface": _interface(os.environ.get(VARIABLE)),
        },
    }


def _interface(name: str | None) -> str:
    """Return gloo's interface with its address; empty if gloo chooses it."""
    if not name:
        return ""
    address = next((each.address for each in interfaces() if each.name == name), "no address")
    return f"{name} ({address})"


def compare_facts(everyone: Sequence[Mapping[str, Mapping[str, str]]]) -> list[Finding]:
    """Return a line for each fact that differs, or one that none does.

    Args:
        everyone: Results of :func:`rank_facts` on each rank, in rank order.
    """
    findings = []
    for kind in ("version", "files", "machine", "setting", "commit"):
        names = dict.fromkeys(name for facts in everyone for name in facts[kind])
        for name in names:
            values = [facts[kind].get(name, "not set") for facts in everyone]
            if len(set(values)) > 1:
                findings.append(_difference(kind, name, values, everyone))
    return findings or [Finding("ranks", "none: versions, files, settings and machines agree")]


def _difference(
    kind: str,
    name: str,
    values: Sequence[str],
    everyone: Sequence[Mapping[str, Mapping[str, str]]],
) -> Finding:
    same_files = len({str(facts["files"]) for facts in everyone}) == 1
    is_fatal, advice = False, ""
    if kind == "version":
        is_fatal = name == "envlab" or name in packages_alike()
        advice = "install the same versions on all nodes: pip install -c constraints.txt -e ."
    elif kind == "files":
        is_fatal, name = True, f"{name} files"
        advice = "ranks would train on different code: copy or check out the same on all nodes"
    elif kind == "commit":
        advice = "" if same_files else "check out the same commit on all nodes"
    elif kind == "setting":
        advice = "set it to the same value on all nodes, or on none"
    elif name == "driver":
        advice = "install the same NVIDIA driver on all nodes"
    else:
        is_fatal = name == "device"
        advice = "ranks wait for the slowest of them, and a GPU's rank cannot average with a CPU's"
    state: State = "problem" if is_fatal else "warning" if advice else "note"
    return Finding(name, name_ranks(values), state, advice)


def finding_of_clocks(offsets_s: Sequence[float], error_s: float) -> Finding:
    """Return the line on the clocks.

    Args:
        offsets_s: Offset of each rank's clock from rank 0's.
        error_s: Its uncertainty.
    """
    worst = max(range(len(offsets_s)), key=lambda rank: abs(offsets_s[rank]))
    offset = offsets_s[worst]
    if abs(offset) <= max(CLOCKS_S, error_s):
        return Finding("clocks", f"within {max(abs(offset), error_s):.3f} s of rank 0's")
    direction = "ahead of" if offset > 0 else "behind"
    text = f"rank {worst}'s is {abs(offset):.1f} s {direction} rank 0's"
    advice = "logs of different nodes cannot be compared: let NTP or chrony set the clocks"
    return Finding("clocks", text, "warning", advice)


LOCAL_REPORT_S = 600.0
"""Time limit of a node's own report; each of its probes has its own deadline."""


def examine_ranks(
    sections: Collection[str], device: str | None, timeout_s: float
) -> tuple[list[Finding], dict[str, Any]]:
    """Examine ranks and nodes. Every rank must call this, and gets the same.

    Args:
        sections: Sections for each node to examine.
        device: The value of ``--device``.
        timeout_s: How long the other ranks may keep this one waiting.

    Raises:
        LaunchError: If no launcher started this process, or the ranks cannot meet.
        DeviceError: If the device does not exist or is needed by two ranks.
    """
    environ = dict(os.environ)  # joining the ranks sets some
    with contextlib.closing(Watch(launched_rank(), timeout_s)) as watch:
        watch.enter("the rendezvous")
        context = DistributedContext.create(True, device)
        try:
            configure_logging(context.rank, context.world_size)
            measured = measure(context, watch) if context.is_distributed else {}
            watch.enter("the comparison of ranks")
            everyone = context.gather(rank_facts(context))
            hosts = [facts["place"]["host"] for facts in everyone]
            nodes = _nodes(context)
            world = f"{context.world_size} over {context.backend or 'nothing, being alone'}"
            between = [Finding("processes", world), *_places(everyone, nodes)]
            differences = []
            if measured:
                between += findings_of_measures(measured, hosts)
                clocks = (measured["clock_offsets_s"], measured["clock_error_s"])
                differences = [*compare_facts(everyone), finding_of_clocks(*clocks)]
            watch.enter("the nodes' own reports", LOCAL_REPORT_S)
            reports = context.gather(_local_report(context, sections, device, environ))
        finally:
            context.close()
    local, facts = _combine(reports, nodes, hosts)
    findings = under("Between ranks", between) + under("Differences between ranks", differences)
    return [*local, *findings], facts | {"ranks": everyone, "collectives": measured}


def _local_report(
    context: DistributedContext,
    sections: Collection[str],
    device: str | None,
    environ: Mapping[str, str],
) -> tuple[list[Finding], dict[str, Any]] | None:
    """Return this node's report, on its first rank."""
    if context.local_rank != 0 or not sections:
        return None
    return examine_machine_of(sections, device, environ)


def _nodes(context: DistributedContext) -> list[list[int]]:
    """Return the ranks of each node; launchers number those of a node consecutively."""
    nodes: list[list[int]] = []
    for rank, local_rank in enumerate(context.gather(context.local_rank)):
        if local_rank == 0 or not nodes:
            nodes.append([])
        nodes[-1].append(rank)
    return nodes


def _places(everyone: Sequence[dict[str, Any]], nodes: Sequence[Sequence[int]]) -> list[Finding]:
    """Return a line for each node: its name, ranks, devices, and interface."""
    findings = []
    for number, ranks in enumerate(nodes):
        places = [everyone[rank]["place"] for rank in ranks]
        devices = list(dict.fromkeys(place["device"] for place in places))
        text = f"{places[0]['host']}: {rank_list(ranks)} on {', '.join(devices)}"
        if places[0]["interface"]:
            text += f", by the interface {places[0]['interface']}"
        findings.append(Finding(f"node {number}", text))
    return findings


def _combine(
    reports: Sequence[tuple[list[Finding], dict[str, Any]] | None],
    nodes: Sequence[Sequence[int]],
    hosts: Sequence[str],
) -> tuple[list[Finding], dict[str, Any]]:
    """Return the first node's whole report, and the problems of the others."""
    findings: list[Finding] = []
    facts: dict[str, Any] = {}
    for number, ranks in enumerate(nodes):
        report = reports[ranks[0]]
        if report is None:
            continue
        local, measured = report
        if number == 0:
            findings, facts = list(local), dict(measured)
            continue
        wrong = [
            dataclasses.replace(finding, name=f"{finding.name} (node {number})")
            for finding in local
            if finding.state in ("warning", "problem")
        ]
        findings += under(f"Node {number}, {hosts[ranks[0]]}", wrong)
    return findings, facts
