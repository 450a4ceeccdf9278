"""Resources of this machine: cores, memory, shared memory, disk, open files."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path
from typing import Any

from envlab.distributed.limits import cpu_quota, describe_size, memory_limit, memory_sizes
from envlab.doctor.probe import Answer, Probe
from envlab.doctor.report import Finding, check

LEAST_MEMORY = 2 << 30
"""A rank of a small task takes about 0.5 GiB; two, and the system, should fit."""
LEAST_SHARED_MEMORY = 256 << 20
"""Docker gives 64 MiB, too little for NCCL, which recommends 1 GiB in a container."""
LEAST_DISK = 2 << 30
NO_DISK = 100 << 20
LEAST_OPEN_FILES = 1024
SLOW_DISK_MIB_PER_S = 10.0
DISK_DEADLINE_S = 20.0


def disk_probe() -> Probe:
    """Return the probe that writes to the folder of runs."""
    return Probe(name="disk", deadline_s=DISK_DEADLINE_S, arguments=[str(log_folder())])


def examine_machine(disk: Answer) -> tuple[list[Finding], dict[str, Any]]:
    """Examine the machine.

    Args:
        disk: Answer of the disk probe.
    """
    facts = _facts(disk)
    shared = facts["shm_bytes"]
    return [
        Finding("system", facts["system"]),
        _cores(facts),
        check(
            facts["load"] <= 1.5 * facts["cores"],
            "load",
            f"{facts['load']:g} processes running, over the last minute",
            "other work takes this machine's cores; wait for it, or expect slow training",
        ),
        _memory(facts),
        check(
            (shared or 0) >= LEAST_SHARED_MEMORY,
            "/dev/shm",
            "absent" if shared is None else f"{describe_size(shared)} free",
            "GPUs of one node talk through shared memory (NCCL): start a container with "
            "--shm-size=1g, or in a Kubernetes pod mount a memory emptyDir at /dev/shm",
        ),
        _log_folder(facts, disk),
        check(
            facts["open_files"] >= LEAST_OPEN_FILES,
            "open files",
            f"up to {facts['open_files']}",
            f"raise the limit before you start: ulimit -n {4 * LEAST_OPEN_FILES}",
        ),
    ], facts


def _facts(disk: Answer) -> dict[str, Any]:
    total, free = memory_sizes()
    return {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "cores_allowed": len(os.sched_getaffinity(0)),
        "cores_quota": cpu_quota(),
        "load": round(os.getloadavg()[0], 1),
        "memory_bytes": total,
        "memory_free_bytes": free,
        "memory_limit_bytes": memory_limit(),
        "shm_bytes": free_bytes(Path("/dev/shm")),
        "log_folder": str(log_folder()),
        "disk_free_bytes": free_bytes(log_folder()),
        "disk_mib_per_s": disk.get("mib_per_s"),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def log_folder() -> Path:
    """Return the folder of run directories, or the folder in which it would be made."""
    logs = Path("logs").absolute()
    return logs if logs.is_dir() else logs.parent


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes of a folder's file system, None if there is no folder."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _cores(facts: dict[str, Any]) -> Finding:
    allowed, quota = facts["cores_allowed"], facts["cores_quota"]
    text = f"{allowed} of {facts['cores']} may be used"
    if quota is None or quota >= allowed:
        return Finding("cores", text)
    return Finding(
        "cores",
        f"{text}, but a control group allows the CPU time of {quota:g}",
        "warning",
        f"envlab would start {allowed} threads for the CPU time of {quota:g} cores, and stall: "
        f"start it with taskset -c 0-{max(0, int(quota) - 1)}, or raise the container's limit "
        "(docker: --cpuset-cpus instead of --cpus)",
    )


def _memory(facts: dict[str, Any]) -> Finding:
    total, free = facts["memory_bytes"], facts["memory_free_bytes"]
    limit = facts["memory_limit_bytes"] or total
    text = f"{describe_size(free)} of {describe_size(total)} free"
    if limit < total:
        text += f", and a control group allows {describe_size(limit)}"
    advice = "end other programs, or use fewer environments: see the memory in --dry_run"
    return check(min(free, limit) >= LEAST_MEMORY, "memory", text, advice)


def _log_folder(facts: dict[str, Any], disk: Answer) -> Finding:
    name, free, speed = "log folder", facts["disk_free_bytes"] or 0, facts["disk_mib_per_s"]
    text = f"{facts['log_folder']}: {describe_size(free)} free"
    if speed is None:
        text += f", cannot be written to: {disk.problem}"
        advice = "run from a folder that you may write to, and whose disk answers"
        return Finding(name, text, "problem", advice)
    text += f", writes {speed:.0f} MiB/s"
    if free < NO_DISK:
        return Finding(name, text, "problem", "make room, or run from a folder on another disk")
    if free < LEAST_DISK:
        return Finding(name, text, "warning", "make room; --dry_run shows the size of a checkpoint")
    advice = "checkpoints will take long: run from a faster disk, or save less often"
    return check(speed >= SLOW_DISK_MIB_PER_S, name, text, advice)
