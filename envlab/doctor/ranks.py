"""The doctor on several processes: each node's own report, and communication between ranks."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from envlab.distributed.agreement import rank_list
from envlab.distributed.context import DistributedContext
from envlab.distributed.log import configure_logging
from envlab.distributed.ranks import launched_rank
from envlab.doctor.collectives import Watch, findings_of_measures, measure
from envlab.doctor.local import examine_machine_of
from envlab.doctor.report import Finding, under
from envlab.doctor.skew import compare_facts, finding_of_clocks, rank_facts

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
