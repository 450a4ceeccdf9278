"""Resources of this machine: cores, memory, shared memory, disk, open files, and devices.

Devices are GPUs, the device of each local process, the renderer of videos, and the cache of the
kernels that Warp compiles for GPUs.
"""

from __future__ import annotations

import os
import platform
import re
import resource
from importlib import metadata
from pathlib import Path
from typing import Any

from envlab.distributed.limits import cpu_quota, describe_size, memory_limit, memory_sizes
from envlab.doctor.probe import Answer, Probe
from envlab.doctor.report import Finding, check
from envlab.sim.kernel_cache import kernel_cache, num_modules

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


DEADLINE_S = 120.0
MOST_PROCESSES = 8
"""Most local processes for which the device map is shown."""


def torch_probe(device: str | None) -> Probe:
    """Return the probe that asks torch for devices.

    Args:
        device: The value of ``--device``.
    """
    cores = len(os.sched_getaffinity(0))
    arguments = [device or "", str(max(2, min(MOST_PROCESSES, cores)))]
    return Probe(name="torch", deadline_s=DEADLINE_S, arguments=arguments)


def renderer_probe() -> Probe:
    """Return the probe that renders a picture."""
    return Probe(name="renderer", deadline_s=DEADLINE_S)


def examine_devices(torch: Answer, renderer: Answer) -> tuple[list[Finding], dict[str, Any]]:
    """Examine GPUs, the device map, the renderer and the cache of Warp's kernels.

    Args:
        torch: Answer of the torch probe.
        renderer: Answer of the renderer probe.
    """
    facts = {
        "cuda_build": torch.get("cuda_build"),
        "nccl": torch.get("nccl"),
        "driver": driver_version(),
        "gpus": torch.get("gpus", []),
        "devices": torch.get("devices", {}),
        "renderer": renderer.get("chosen"),
        "kernel_cache": _kernel_cache_facts(),
    }
    others = [_renderer(renderer), *_kernel_cache(facts)]
    if torch.problem is not None:
        text = f"cannot say which devices there are: {torch.problem}"
        advice = "python -c 'import torch' shows the whole message; reinstall torch"
        return [Finding("torch", text, "problem", advice), *others], facts
    return [_gpus(facts), *_device_map(torch), *others], facts


def driver_version() -> str | None:
    """Return the version of NVIDIA's kernel module, None if it is not loaded."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"Module(?: for \w+)?\s+([\d.]+)", text)
    return found.group(1) if found else None


def _gpus(facts: dict[str, Any]) -> Finding:
    gpus, driver, build = facts["gpus"], facts["driver"], facts["cuda_build"]
    if gpus:
        names = [
            f"cuda:{i} {gpu['name']} ({describe_size(gpu['memory_bytes'])})"
            for i, gpu in enumerate(gpus)
        ]
        text = (
            f"{', '.join(names)}; driver {driver or 'unknown'}, CUDA {build}, NCCL {facts['nccl']}"
        )
        return Finding("GPUs", text)
    if driver is None:
        return Finding("GPUs", "none; everything runs on the CPU")
    if os.environ.get("CUDA_VISIBLE_DEVICES", "set") in ("", "-1", "NoDevFiles"):
        advice = "unset CUDA_VISIBLE_DEVICES, which hides them"
    elif build is None:
        advice = "install the CUDA build of the torch that constraints.txt names, before envlab"
    else:
        advice = f"the driver may be too old for CUDA {build}, or the container has no access to it"
    text = f"a driver ({driver}) is loaded, but torch sees no GPU"
    return Finding("GPUs", text, "warning", advice)


def _device_map(torch: Answer) -> list[Finding]:
    """Return a line for each number of local processes, with equal ones merged."""
    cores = len(os.sched_getaffinity(0))
    findings = []
    for count, devices in sorted((int(n), each) for n, each in torch.get("devices", {}).items()):
        threads = max(1, cores // count)
        where = devices[0] if len(set(devices)) == 1 else ", ".join(devices)
        text = f"{where}, {_counted(threads, 'CPU thread')}{' each' if count > 1 else ''}"
        if count > cores:
            text += f"; they share {_counted(cores, 'core')}"
        findings.append(Finding(_counted(count, "process", "es"), text))
    refused = torch.get("refused_at")
    if refused == 1:
        advice = "leave --device out, or name an existing device"
        findings.append(Finding("--device", str(torch.get("refusal")), "problem", advice))
    elif refused is not None:
        text = f"refused: {torch.get('refusal')}"
        findings.append(Finding(f"{refused} or more", text, "note"))
    return findings


def _renderer(renderer: Answer) -> Finding:
    chosen, problems = renderer.get("chosen"), renderer.get("problems", "")
    if chosen in (None, "disable"):
        return Finding(
            "renderer",
            f"none works, so --video would be refused ({problems or renderer.problem})",
            "warning",
            "for videos, on Debian or Ubuntu: apt-get install libegl1 libopengl0 libgl1-mesa-dri, "
            "or libosmesa6; see docs/train.md",
        )
    return Finding("renderer", f"MUJOCO_GL={chosen} renders" + (f" ({problems})" * bool(problems)))


def _kernel_cache_facts() -> dict[str, Any] | None:
    """Return where Warp keeps kernels, and how many; None without Warp."""
    try:
        folder = kernel_cache()
    except metadata.PackageNotFoundError:
        return None
    # Path.exists would raise for a folder within one that is closed to us.
    nearest = next(one for one in (folder, *folder.parents) if os.path.exists(one))
    return {
        "folder": str(folder),
        "num_modules": num_modules(folder),
        "is_writable": os.access(nearest, os.W_OK),
    }


def _kernel_cache(facts: dict[str, Any]) -> list[Finding]:
    found = facts["kernel_cache"]
    if found is None:
        return []
    folder, count = found["folder"], found["num_modules"]
    if not found["is_writable"]:
        text = f"{folder} cannot be written to, so each process compiles Warp's kernels again"
        advice = "set WARP_CACHE_PATH to a folder that can be, such as a volume"
        return [Finding("kernel cache", text, "warning", advice)]
    if count:
        return [Finding("kernel cache", f"{folder}, {_counted(count, 'module')} of Warp's")]
    text = f"{folder} is empty: a task's first run on a GPU compiles for up to a minute"
    return [Finding("kernel cache", f"{text}; 'envlab warm --task ID' does it ahead", "note")]


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"
