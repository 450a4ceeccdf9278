"""All checks of the doctor on one machine, for one process or a node's first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from envlab.doctor.devices import examine_devices, renderer_probe, torch_probe
from envlab.doctor.libraries import examine_libraries, library_probes
from envlab.doctor.machine import disk_probe, examine_machine
from envlab.doctor.network import examine_network, examine_variables, names_probe
from envlab.doctor.probe import Answer, ask
from envlab.doctor.report import Finding, under
from envlab.doctor.source import examine_source

logger = logging.getLogger(__name__)

Examined = tuple[list[Finding], dict[str, Any]]
"""The lines of a report, and measured values."""
SECTIONS: dict[str, tuple[str, Callable[[dict[str, Answer], Mapping[str, str]], Examined]]] = {
    "source": ("Source", lambda answers, environ: examine_source()),
    "machine": ("Machine", lambda answers, environ: examine_machine(answers["disk"])),
    "devices": (
        "Devices",
        lambda answers, environ: examine_devices(answers["torch"], answers["renderer"]),
    ),
    "network": ("Network", lambda answers, environ: examine_network(answers["names"])),
    "variables": ("Environment variables", lambda answers, environ: examine_variables(environ)),
    "libraries": ("Libraries", lambda answers, environ: examine_libraries(answers)),
}
"""Choices of ``--only``: heading, and its examining function."""


def examine_machine_of(
    sections: Collection[str], device: str | None, environ: Mapping[str, str]
) -> Examined:
    """Examine this machine.

    Args:
        sections: Sections of :data:`SECTIONS` to examine.
        device: The value of ``--device``.
        environ: The environment variables as the user set them.

    Returns:
        The lines of the report, and measured values by section.
    """
    answers = _ask(sections, device)
    findings: list[Finding] = []
    facts: dict[str, Any] = {}
    for name, (heading, examine) in SECTIONS.items():
        if name in sections:
            found, facts[name] = examine(answers, environ)
            findings += under(heading, found)
    return findings, facts


def _ask(sections: Collection[str], device: str | None) -> dict[str, Answer]:
    """Run quick probes first, so that loading libraries does not disturb measurements."""
    quick, slow = [], []
    if "machine" in sections:
        quick.append(disk_probe())
    if "network" in sections:
        quick.append(names_probe())
    if "devices" in sections:
        slow.append(renderer_probe())
    if "libraries" in sections:
        slow += library_probes()
    if slow:
        slow.append(torch_probe(device))
    answers = ask(quick)
    if slow:
        logger.info("Loading libraries to see whether they work; this takes some seconds ...")
    return answers | ask(slow)
