"""The doctor's probes: functions that yield facts; see :mod:`envlab.doctor.probe`."""

from __future__ import annotations

import importlib
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

WRITE_CHUNK_MIB = 4
WRITE_TOTAL_MIB = 64
WRITE_TIME_S = 1.5
"""Time limit of a measurement; a slow disk gets less than 64 MiB."""


def probe_torch(device: str, most: str) -> Iterator[dict[str, Any]]:
    """Report torch's build and GPUs, and the device of each of 1 to ``most`` processes."""
    import torch
    import torch.distributed as dist

    from envlab.distributed.context import resolve_device
    from envlab.errors import DeviceError

    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if dist.is_nccl_available() else None
    yield {
        "cuda_build": torch.version.cuda,
        "nccl": nccl if torch.version.cuda else None,
        "gloo": dist.is_gloo_available(),
        "gpus": [_gpu(torch.cuda.get_device_properties(index)) for index in range(num_gpus)],
    }
    devices: dict[str, list[str]] = {}
    for count in range(1, int(most) + 1):
        try:
            ranks = [resolve_device(device or None, rank, count, num_gpus) for rank in range(count)]
            if ranks[0].type == "cuda" and len(set(ranks)) < count:
                raise DeviceError(
                    f"{count} processes need a GPU each, and torch sees one here. All may use "
                    "cuda:0 only if each process is shown a different GPU, as under Slurm."
                )
        except DeviceError as error:
            yield {"devices": devices, "refused_at": count, "refusal": str(error)}
            return
        devices[str(count)] = [str(each) for each in ranks]
    yield {"devices": devices}


def _gpu(properties: Any) -> dict[str, Any]:
    return {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "capability": f"{properties.major}.{properties.minor}",
        "uuid": str(getattr(properties, "uuid", "")),
    }


def probe_imports(*modules: str) -> Iterator[dict[str, Any]]:
    """Import modules one by one, and report the result of each."""
    for module in modules:
        start = time.monotonic()
        problem = None
        yield {"importing": module}  # the last one named, if an import ends the process
        try:
            importlib.import_module(module)
        except Exception as error:  # a broken package raises anything
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
        seconds = round(time.monotonic() - start, 2)
        yield {"module": module, "problem": problem, "seconds": seconds}


def probe_jax() -> Iterator[dict[str, Any]]:
    """Report the devices that JAX sees."""
    import jax

    yield {"platform": jax.default_backend(), "devices": [str(each) for each in jax.devices()]}


def probe_renderer() -> Iterator[dict[str, Any]]:
    """Render a picture with the first OpenGL that works, as ``--video`` does."""
    from envlab.sim.opengl import choose_opengl, opengl_problems

    choose_opengl()
    yield {"chosen": os.environ["MUJOCO_GL"], "problems": opengl_problems()}


def probe_disk(folder: str) -> Iterator[dict[str, Any]]:
    """Write an unnamed temporary file to a folder, and report the speed."""
    chunk = os.urandom(WRITE_CHUNK_MIB << 20)
    with tempfile.TemporaryFile(dir=folder) as file:
        start = time.monotonic()
        written = 0
        while written < WRITE_TOTAL_MIB and time.monotonic() - start < WRITE_TIME_S:
            file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            written += WRITE_CHUNK_MIB
        seconds = time.monotonic() - start
    yield {"written_mib": written, "mib_per_s": round(written / max(seconds, 1e-6), 1)}


def probe_names(*names: str) -> Iterator[dict[str, Any]]:
    """Report the addresses of host names."""
    yield {"fqdn": socket.getfqdn()}
    for name in names:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError as error:
            yield {"name": name, "addresses": [], "problem": str(error)}
            continue
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        yield {"name": name, "addresses": addresses, "problem": None}


def send_facts(connection: Connection, name: str, *words: str) -> None:
    """Send the facts of the probe called ``name``, with words as its arguments."""
    for fact in globals()[f"probe_{name.partition('_')[0]}"](*words):  # such as imports_torch
        connection.send(fact)
