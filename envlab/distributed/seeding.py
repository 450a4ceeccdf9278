"""The seed rule, and the states of the process's generators.

One base seed, agreed by broadcast. Model initialisation and environments use the base seed
(environments are told apart by their global index); action sampling uses base seed + global rank.
Libraries are stopped from adding offsets of their own. Playing and validating have another seed,
which :func:`evaluation_seed` derives.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def evaluation_seed(seed: int) -> int:
    """Return the base seed for judging policies, with draws that no training saw."""
    return int.from_bytes(hashlib.sha256(f"evaluation/{seed}".encode()).digest()[:4], "little") >> 1


def generator_state() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and torch's generators, as tensors and numbers.

    That of a GPU is among them only where this process uses one: to ask for it takes memory there.
    """
    version, numbers, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    assert isinstance(keys, np.ndarray)
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
    }


def set_generator_state(state: Mapping[str, Any]) -> None:
    """Restore what :func:`generator_state` returned."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(state["cuda"])


def generator_identities() -> dict[str, Any]:
    """Return what no two ranks' generators may have in common; no generator is advanced.

    torch's, which actions are sampled with, is known by its seed, wherever it stands; NumPy's keeps
    none, so its state is taken.
    """
    _, keys, *_ = np.random.get_state(legacy=True)
    assert isinstance(keys, np.ndarray)
    found: dict[str, Any] = {"torch": torch.initial_seed(), "numpy": keys.tobytes()}
    if torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.initial_seed()
    return found
