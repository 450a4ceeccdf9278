"""Kinds of processor: on one kind, the same program gives the same bits."""

from __future__ import annotations

from pathlib import Path

import mujoco
import torch

from envlab.tools.evidence.runner import processor

FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile")
"""What libraries look for before they choose their kernels."""


def kind_of_processor() -> str:
    """Return the processor's name, its instructions, and the libraries that choose by them."""
    info = Path("/proc/cpuinfo")
    words = set(info.read_text().split()) if info.exists() else set()
    found = [flag for flag in FLAGS if flag in words]
    capability = torch.backends.cpu.get_cpu_capability()
    versions = f"torch {torch.__version__}, mujoco {mujoco.__version__}"
    return f"{processor('cpu')} ({' '.join(found)}; {capability}), {versions}"
