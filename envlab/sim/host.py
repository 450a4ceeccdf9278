"""Where a tensor's values can be looked at for nothing; a GPU would have to be waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

HOST = {"cpu"}
"""Types of such devices. Tests empty it, and so walk a GPU's branches on a CPU."""


@contextlib.contextmanager
def as_on_a_gpu(device: torch.device) -> Iterator[None]:
    """Walk a GPU's branches on a device, where operations are the same in each step."""
    was_host = on_host(device)
    HOST.discard(device.type)
    try:
        yield
    finally:
        if was_host:
            HOST.add(device.type)


def on_host(device: torch.device) -> bool:
    """Tell whether looking at values on a device costs no wait."""
    return device.type in HOST
