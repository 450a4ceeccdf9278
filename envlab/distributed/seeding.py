"""The seed rule, and the states of the process's generators.

Ranks agree on one base seed by broadcast. Model initialisation and environments use the base seed
(environments differ by their global index); action sampling uses base seed + global rank. Libraries
are prevented from adding further offsets. Playing and validating use another seed, derived by
:func:`evaluation_seed`.
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
    """Return the base seed for judging policies, whose draws no training saw."""
    return int.from_bytes(hashlib.sha256(f"evaluation/{seed}".encode()).digest()[:4], "little") >> 1


def continued_seed(seed: int, iteration: int) -> int:
    """Return the base seed for actions after an iteration, of a run on other processes than then.

    With the run's own seed they would repeat the draws of its first iterations.
    """
    digest = hashlib.sha256(f"continued/{seed}/{iteration}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1


def generator_state() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and torch's generators, as tensors and numbers.

    A GPU's is included only if this process uses one, because reading it allocates memory on the
    GPU.
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
    """Restore the states that :func:`generator_state` returned."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(state["cuda"])


def generator_identities() -> dict[str, Any]:
    """Return the values that no two ranks' generators may share; no generator is advanced.

    torch's generator, which samples actions, is identified by its seed, however far it is advanced.
    NumPy's keeps no seed, so its state is returned.
    """
    _, keys, *_ = np.random.get_state(legacy=True)
    assert isinstance(keys, np.ndarray)
    found: dict[str, Any] = {"torch": torch.initial_seed(), "numpy": keys.tobytes()}
    if torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.initial_seed()
    return found
