"""The cores and memory that the system and control groups let this process use."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

import psutil

_ROOT = Path("/sys/fs/cgroup")


def usable_cores(root: Path = _ROOT) -> int:
    """Return the number of cores this process can keep busy: those it may run on, within its quota.

    Containers mostly get a share of all cores (``docker --cpus=2``), which does not show in the
    processes' affinity.

    Args:
        root: Where control groups are mounted.
    """
    allowed, quota = len(os.sched_getaffinity(0)), cpu_quota(root)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def usable_threads(local_world_size: int, root: Path = _ROOT) -> int:
    """Return how many threads each of a node's processes should have: its share of the cores.

    ``OMP_NUM_THREADS`` lowers it. For several processes the launcher sets that to 1 if the user did
    not, so with several, only a number other than 1 counts.

    Args:
        local_world_size: Processes of this node that share its cores.
        root: Where control groups are mounted.
    """
    share = max(1, usable_cores(root) // local_world_size)
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if not asked.isdecimal() or int(asked) < (1 if local_world_size == 1 else 2):
        return share
    return min(share, int(asked))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """Return the number of cores that this process's control group may use, None without a limit.

    Source: the kernel's documentation of cgroup v2 (``cpu.max``) and v1 (``cpu.cfs_quota_us``).

    Args:
        root: Where control groups are mounted.
    """
    for folder in _groups("cpu", root):
        try:
            if (folder / "cpu.max").is_file():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota = (folder / "cpu.cfs_quota_us").read_text().strip()
                period = (folder / "cpu.cfs_period_us").read_text().strip()
            if quota not in ("max", "-1"):
                return round(int(quota) / int(period), 2)
        except (OSError, ValueError):
            continue
    return None


def memory_limit(root: Path = _ROOT) -> int | None:
    """Return how many bytes this process's control group may use, None without a limit."""
    for folder in _groups("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                text = (folder / name).read_text().strip()
            except OSError:
                continue
            if text.isdigit() and int(text) < 1 << 60:  # v1 has a huge number for "none"
                return int(text)
    return None


def memory_sizes() -> tuple[int, int]:
    """Return this machine's memory and the part free for new processes, in bytes."""
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def free_memory(root: Path = _ROOT) -> int:
    """Return how many bytes this process may still take, of the machine's memory and its limits."""
    process = psutil.Process()
    limits = [memory_sizes()[1]]
    group = memory_limit(root)
    if group is not None:
        limits.append(group)
    for kind, used in (
        (resource.RLIMIT_AS, process.memory_info().vms),
        (resource.RLIMIT_DATA, process.memory_info().data),
    ):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            limits.append(limit - used)
    return max(0, min(limits))


def describe_size(count: float) -> str:
    """Return a number of bytes for people: ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _groups(controller: str, root: Path) -> list[Path]:
    """Return the folders that may hold this process's limits, the nearest first."""
    folders = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, names, path = line.split(":", 2)
        if not names or controller in names.split(","):
            base = root / controller if names else root
            own = base / path.lstrip("/")
            folders += [own, *(up for up in own.parents if up.is_relative_to(base))]
    return [*folders, root, root / controller]
