"""Differences between ranks that should not exist: versions, files, settings, clocks."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping, Sequence

from envlab.commit import git_state
from envlab.distributed.agreement import name_ranks
from envlab.distributed.context import DistributedContext
from envlab.distributed.interface import VARIABLE, interfaces
from envlab.doctor.devices import driver_version
from envlab.doctor.libraries import versions
from envlab.doctor.local import source_digests
from envlab.doctor.report import Finding, State
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
