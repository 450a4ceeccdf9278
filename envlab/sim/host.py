"""Where a tensor's values can be looked at for nothing; a GPU would have to be waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

HOST = {"cpu"}
"""Types of such devices. Tests empty it, and so walk a GPU's branches on a CPU."""

_as_on_a_gpu = ContextVar("as_on_a_gpu", default=False)


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Walk a GPU's branches in this thread, where operations are the same in each step."""
    token = _as_on_a_gpu.set(True)
    try:
        yield
    finally:
        _as_on_a_gpu.reset(token)


def on_host(device: torch.device) -> bool:
    """Tell whether looking at values on a device costs no wait."""
    return device.type in HOST and not _as_on_a_gpu.get()
