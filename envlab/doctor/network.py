"""What this host is called and resolves to, its interfaces, and the variables that matter."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.distributed.interface import VARIABLE, interfaces
from envlab.doctor.probe import Answer, Probe
from envlab.doctor.report import Finding, State

SECTION = "Network"
VARIABLES = "Environment variables"
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
    """Look at host name and interfaces.

    Args:
        names: What the names probe said.
    """
    host, addresses = socket.gethostname(), interface_addresses()
    resolved = {fact["name"]: fact["addresses"] for fact in names.facts if "name" in fact}
    facts = {"host": host, "fqdn": names.get("fqdn"), "resolved": resolved, "interfaces": addresses}
    findings = [judge_host(host, resolved.get(host), addresses, names.problem)]
    if resolved.get("localhost") == []:
        findings.append(
            Finding(
                section=SECTION,
                name="localhost",
                text="does not resolve",
                state="problem",
                advice="add the line '127.0.0.1 localhost' to /etc/hosts",
            )
        )
    for interface, own in addresses.items():
        text = ", ".join(own) or "no address"
        findings.append(Finding(section=SECTION, name=interface, text=text))
    return findings, facts


def judge_host(
    host: str,
    resolved: list[str] | None,
    addresses: Mapping[str, list[str]],
    problem: str | None,
) -> Finding:
    """Return the line of the host's name.

    Args:
        host: Its name.
        resolved: The addresses that the name resolves to; null if that took too long.
        addresses: The interfaces' addresses.
        problem: Why resolving took too long.
    """
    cure = f"add a line '<address of this node> {host}' to /etc/hosts on every node"
    if resolved is None or not resolved:
        reason = "does not resolve" if resolved is not None else f"resolving: {problem}"
        return Finding(
            section=SECTION, name="host name", text=f"{host} {reason}", state="warning", advice=cure
        )
    text = f"{host}, which resolves to {', '.join(resolved)}"
    own = {address for each in addresses.values() for address in each}
    loops = all(ipaddress.ip_address(address.split("%")[0]).is_loopback for address in resolved)
    if loops:
        text += "; good for one node, not for several"
        advice = (
            "For several nodes, give --rdzv_endpoint as an address that the others reach (or "
            f"{cure}); envlab finds the interface by itself."
        )
        return Finding(section=SECTION, name="host name", text=text, state="note", advice=advice)
    if not own.intersection(resolved):
        text += ", but no interface here has that address"
        return Finding(section=SECTION, name="host name", text=text, state="warning", advice=cure)
    return Finding(section=SECTION, name="host name", text=text)


def interface_addresses() -> dict[str, list[str]]:
    """Return the addresses of each interface that is up, IPv4 first, loopback last."""
    found: dict[str, list[str]] = {}
    for name, address in [*interfaces(), *_ipv6_addresses()]:
        found.setdefault(name, []).append(address)
    return dict(sorted(found.items(), key=lambda pair: pair[0] == "lo"))


def _ipv6_addresses() -> list[tuple[str, str]]:
    """Return interfaces and IPv6 addresses, but those of one link only."""
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return []
    pairs = [(line.split()[-1], ipaddress.IPv6Address(int(line.split()[0], 16))) for line in lines]
    return [(name, str(address)) for name, address in pairs if not address.is_link_local]


def examine_variables(environ: Mapping[str, str]) -> tuple[list[Finding], dict[str, Any]]:
    """Look at the environment variables that change how ranks meet or compute."""
    shown = {name: value for name, value in sorted(environ.items()) if _SHOWN.fullmatch(name)}
    if shown.get("OMP_WAIT_POLICY") == "PASSIVE":  # envlab's own
        del shown["OMP_WAIT_POLICY"]
    findings = [_judge_variable(name, value) for name, value in shown.items()]
    if not findings:
        findings = [Finding(section=VARIABLES, name="variables", text="none that matter are set")]
    return findings, shown


def _judge_variable(name: str, value: str) -> Finding:
    text = value if value else "(empty)"
    advice = ""
    if name == VARIABLE:
        absent = [each for each in value.split(",") if each not in _names()]
        if absent:
            return Finding(
                section=VARIABLES,
                name=name,
                text=f"{text}, but there is no interface {', '.join(absent)}",
                state="problem",
                advice=f"name one of {', '.join(_names())}, or unset it",
            )
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
    state: State = "warning" if advice else "ok"
    return Finding(section=VARIABLES, name=name, text=text, state=state, advice=advice)


def _names() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _matches_interface(value: str) -> bool:
    """Return whether NCCL's pattern allows an interface; see NCCL's documentation of it."""
    is_exact, negated = "=" in value[:2], value.startswith("^")
    words = [word for word in value.lstrip("^=").split(",") if word]

    def named(interface: str) -> bool:
        return any(interface == word if is_exact else interface.startswith(word) for word in words)

    return any(named(interface) != negated for interface in _names())
