"""GPUs, the device of each local process, and the renderer of videos."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from envlab.distributed.limits import describe_size
from envlab.doctor.probe import Answer, Probe
from envlab.doctor.report import Finding

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
    """Examine GPUs, the device map and the renderer.

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
    }
    if torch.problem is not None:
        text = f"cannot say which devices there are: {torch.problem}"
        advice = "python -c 'import torch' shows the whole message; reinstall torch"
        return [Finding("torch", text, "problem", advice), _renderer(renderer)], facts
    return [_gpus(facts), *_device_map(torch), _renderer(renderer)], facts


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


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"
