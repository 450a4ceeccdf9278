"""Devices whose values can be read at no cost, unlike a GPU's, which must be waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

HOST = {"cpu"}
"""Types of such devices. Tests empty it to take a GPU's branches on a CPU."""

_as_on_a_gpu = ContextVar("as_on_a_gpu", default=False)


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Take a GPU's branches in this thread, which run the same operations in each step."""
    token = _as_on_a_gpu.set(True)
    try:
        yield
    finally:
        _as_on_a_gpu.reset(token)


def on_host(device: torch.device) -> bool:
    """Return whether values on a device can be read without waiting."""
    return device.type in HOST and not _as_on_a_gpu.get()
