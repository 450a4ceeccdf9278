"""Where a tensor's values can be looked at for nothing; a GPU would have to be waited for."""

from __future__ import annotations

import torch

HOST = {"cpu"}
"""Types of such devices. Tests empty it, and so walk a GPU's branches on a CPU."""


def on_host(device: torch.device) -> bool:
    """Tell whether looking at values on a device costs no wait."""
    return device.type in HOST
