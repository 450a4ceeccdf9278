"""All checks of the doctor on one machine, for one process or a node's first.

One is of the code that runs: its commit, and digests of the files of tasks and engine.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from envlab.commit import code_digests, git_state
from envlab.doctor.libraries import examine_libraries, library_probes
from envlab.doctor.machine import (
    disk_probe,
    examine_devices,
    examine_machine,
    renderer_probe,
    torch_probe,
)
from envlab.doctor.network import examine_network, examine_variables, names_probe
from envlab.doctor.probe import Answer, ask
from envlab.doctor.report import Finding, under
from envlab.task import ENTRY_POINT_GROUP

logger = logging.getLogger(__name__)


def examine_source() -> tuple[list[Finding], dict[str, Any]]:
    """Report the commit and digests of the files."""
    facts: dict[str, Any] = {"git": git_state(), "digests": source_digests()}
    git = facts["git"]
    if git is None:
        text = f"no git checkout: {Path(__file__).parents[2]}"
    else:
        text = f"{git['commit'][:12]}{', with changes not committed' if git['dirty'] else ''}"
    findings = [Finding("commit", text)]
    findings += [
        Finding(name, f"files with digest {digest}") for name, digest in facts["digests"].items()
    ]
    return findings, facts


def source_digests() -> dict[str, str]:
    """Return a digest of the code, models and settings of envlab, its tasks, and other suites."""
    suites = {
        entry_point.value.partition(":")[0].split(".")[0]
        for entry_point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    }
    return code_digests(suites)


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
