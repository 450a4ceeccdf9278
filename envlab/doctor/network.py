"""This host's name and addresses, its interfaces, and relevant environment variables."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from typing import Any

import psutil

from envlab.distributed.interface import VARIABLE
from envlab.doctor.probe import Answer, Probe
from envlab.doctor.report import Finding

NAMES_DEADLINE_S = 15.0
_SHOWN = re.compile(
    r"(GLOO|NCCL|CUDA|TORCH|PYTORCH|OMP|MKL|XLA|JAX|WARP|MUJOCO|NVIDIA)_\w+"
    r"|SLURM_(JOB_ID|NNODES|NTASKS|PROCID|NODELIST|RESTART_COUNT)"
    r"|PYTHONPATH|LD_LIBRARY_PATH|PYOPENGL_PLATFORM|DISPLAY"
)
"""Variables that change how ranks meet or compute. None of them holds a secret."""


def names_probe() -> Probe:
    """Return the probe that resolves this host's name; a name server may be slow to refuse."""
    names = [socket.gethostname(), "localhost"]
    return Probe(name="names", deadline_s=NAMES_DEADLINE_S, arguments=names)


def examine_network(names: Answer) -> tuple[list[Finding], dict[str, Any]]:
    """Examine host name and interfaces.

    Args:
        names: Answer of the names probe.
    """
    host, addresses = socket.gethostname(), interface_addresses()
    resolved = {fact["name"]: fact["addresses"] for fact in names.facts if "name" in fact}
    facts = {"host": host, "fqdn": names.get("fqdn"), "resolved": resolved, "interfaces": addresses}
    findings = [finding_of_host(host, resolved.get(host), addresses, names.problem)]
    if resolved.get("localhost") == []:
        advice = "add the line '127.0.0.1 localhost' to /etc/hosts"
        findings.append(Finding("localhost", "does not resolve", "problem", advice))
    findings += [Finding(name, ", ".join(own)) for name, own in addresses.items()]
    return findings, facts


def finding_of_host(
    host: str,
    resolved: list[str] | None,
    addresses: Mapping[str, list[str]],
    problem: str | None,
) -> Finding:
    """Return the line on the host's name.

    Args:
        host: Its name.
        resolved: The addresses that the name resolves to; None if that took too long.
        addresses: The interfaces' addresses.
        problem: Why resolving took too long.
    """
    hint = f"add a line '<address of this node> {host}' to /etc/hosts on every node"
    if not resolved:
        reason = f"resolving: {problem}" if resolved is None else "does not resolve"
        return Finding("host name", f"{host} {reason}", "warning", hint)
    text = f"{host}, which resolves to {', '.join(resolved)}"
    own = {address for each in addresses.values() for address in each}
    if all(ipaddress.ip_address(address.split("%")[0]).is_loopback for address in resolved):
        text += "; good for one node, not for several"
        advice = (
            "For several nodes, give --rdzv_endpoint as an address that the others reach (or "
            f"{hint}); envlab finds the interface by itself."
        )
        return Finding("host name", text, "note", advice)
    if not own.intersection(resolved):
        return Finding(
            "host name", f"{text}, but no interface here has that address", "warning", hint
        )
    return Finding("host name", text)


def interface_addresses() -> dict[str, list[str]]:
    """Return each interface's addresses except link-local ones; IPv4 first, loopback last."""
    found = {}
    for name, entries in psutil.net_if_addrs().items():
        found[name] = [
            entry.address
            for family in (socket.AF_INET, socket.AF_INET6)
            for entry in entries
            if entry.family == family and not entry.address.startswith("fe80:")
        ]
    return dict(sorted(((k, v) for k, v in found.items() if v), key=lambda pair: pair[0] == "lo"))


def examine_variables(environ: Mapping[str, str]) -> tuple[list[Finding], dict[str, Any]]:
    """Examine the environment variables that change how ranks meet or compute."""
    shown = {name: value for name, value in sorted(environ.items()) if _SHOWN.fullmatch(name)}
    if shown.get("OMP_WAIT_POLICY") == "PASSIVE":  # envlab's own
        del shown["OMP_WAIT_POLICY"]
    findings = [_variable(name, value) for name, value in shown.items()]
    return findings or [Finding("variables", "none that matter are set")], shown


def _variable(name: str, value: str) -> Finding:
    text = value if value else "(empty)"
    advice = ""
    if name == VARIABLE:
        absent = [each for each in value.split(",") if each not in _names()]
        if absent:
            text += f", but there is no interface {', '.join(absent)}"
            return Finding(name, text, "problem", f"name one of {', '.join(_names())}, or unset it")
    elif name == "NCCL_SOCKET_IFNAME" and not _matches_interface(value):
        advice = f"it names none of {', '.join(_names())}: correct it, or unset it"
    elif name == "TORCH_DISTRIBUTED_DEBUG" and value.upper() == "DETAIL":
        advice = "it makes every collective slow: unset it for real runs"
    elif name == "CUDA_LAUNCH_BLOCKING" and value not in ("", "0"):
        advice = "it makes GPU runs slow: unset it for real runs"
    elif name == "OMP_WAIT_POLICY" and value.upper() == "ACTIVE":
        advice = "waiting threads take the cores of working ones: unset it"
    elif name == "CUDA_VISIBLE_DEVICES" and value in ("", "-1", "NoDevFiles"):
        advice = "it hides all GPUs: unset it, unless you mean to train on the CPU"
    return Finding(name, text, "warning" if advice else "ok", advice)


def _names() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _matches_interface(value: str) -> bool:
    """Return whether NCCL's pattern allows an interface; see NCCL's documentation."""
    is_exact, negated = "=" in value[:2], value.startswith("^")
    words = [word for word in value.lstrip("^=").split(",") if word]

    def named(interface: str) -> bool:
        return any(interface == word if is_exact else interface.startswith(word) for word in words)

    return any(named(interface) != negated for interface in _names())
