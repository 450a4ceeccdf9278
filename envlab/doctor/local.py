"""Everything that the doctor looks at on one machine, for one process or for a node's first."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from envlab.doctor.devices import examine_devices, renderer_probe, torch_probe
from envlab.doctor.libraries import examine_libraries, library_probes
from envlab.doctor.machine import disk_probe, examine_machine
from envlab.doctor.network import examine_network, examine_variables, names_probe
from envlab.doctor.probe import Answer, ask
from envlab.doctor.report import Finding
from envlab.doctor.source import examine_source

logger = logging.getLogger(__name__)

SECTIONS = ("source", "machine", "devices", "network", "variables", "libraries")
"""What ``--only`` chooses from."""


def examine_machine_of(
    sections: Collection[str], device: str | None, environ: Mapping[str, str]
) -> tuple[list[Finding], dict[str, Any]]:
    """Look at this machine.

    Args:
        sections: What to look at, of :data:`SECTIONS`.
        device: What ``--device`` says.
        environ: The environment variables as the user set them.

    Returns:
        The lines of the report, and measured values by section.
    """
    answers = _ask(sections, device)
    findings: list[Finding] = []
    facts: dict[str, Any] = {}
    for section in SECTIONS:
        if section in sections:
            found, facts[section] = _examine(section, answers, environ)
            findings += found
    return findings, facts


def _ask(sections: Collection[str], device: str | None) -> dict[str, Answer]:
    """Ask first what is quick, so that loading libraries does not disturb what is measured."""
    quick = []
    if "machine" in sections:
        quick.append(disk_probe())
    if "network" in sections:
        quick.append(names_probe())
    answers = ask(quick)
    slow = []
    if "devices" in sections or "libraries" in sections:
        slow.append(torch_probe(device))
    if "devices" in sections:
        slow.append(renderer_probe())
    if "libraries" in sections:
        slow += library_probes()
    if slow:
        logger.info("Loading libraries to see whether they work; this takes some seconds ...")
    return answers | ask(slow)


def _examine(
    section: str, answers: dict[str, Answer], environ: Mapping[str, str]
) -> tuple[list[Finding], dict[str, Any]]:
    if section == "source":
        return examine_source()
    if section == "machine":
        return examine_machine(answers["disk"])
    if section == "devices":
        return examine_devices(answers["torch"], answers["renderer"])
    if section == "network":
        return examine_network(answers["names"])
    if section == "variables":
        return examine_variables(environ)
    return examine_libraries(answers)
