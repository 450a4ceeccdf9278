"""All tensors and numbers that an object holds, however deep, by their paths."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch

from envlab.distributed.audit import digest

NOT_THE_LEARNERS = {
    *("env", "vec_env", "context", "_context", "cfg", "_cfg"),
    *("logger", "transition", "tracking_data"),
}
ROLLOUTS = {"storage", "experience_buffer", "dataset", "memory", "memories", "replay_buffer"}
"""Attributes that are not followed: the learner does not own them, or refills them."""
DEPTH = 9


def live_digests(owner: Any) -> dict[str, str]:
    """Return digests of all values reachable from an object."""
    found: dict[str, str] = {}
    seen: dict[int, Any] = {}  # holds the objects, so that no id is reused

    def visit(value: Any, path: str, depth: int) -> None:
        if isinstance(value, (bool, str, bytes, type)) or value is None:
            return
        if isinstance(value, (int, float, torch.Tensor)):
            found[path] = digest(value)
        elif type(value).__module__.startswith("jax") and hasattr(value, "dtype"):
            found[path] = digest(torch.from_numpy(np.array(value)))
        elif id(value) not in seen and depth < DEPTH:
            seen[id(value)] = value
            for name, part in _parts(value):
                if name not in NOT_THE_LEARNERS | ROLLOUTS:
                    visit(part, f"{path}.{name}", depth + 1)

    visit(owner, "", 0)
    return found


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple, deque)):
        return list(enumerate(value))
    if type(value).__module__.startswith(("envlab.envs", "envlab.sim", "gymnasium", "logging")):
        return []
    return list(vars(value).items()) if hasattr(value, "__dict__") else []
