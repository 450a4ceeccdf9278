"""The memories of skrl's agents in checkpoints, the same for PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envlab.state import Ring, Share, dealt_steps


def dealt_memory(
    saved: Sequence[Mapping[str, Any]], share: Share, memory_size: int
) -> dict[str, Any]:
    """Return a share of the memories that several processes saved.

    A memory whose rows are not those of environments, such as AMP's of observations to tell apart,
    is that of the process that had the share's first environment.

    Args:
        saved: ``index``, ``filled``, and ``tensors`` by name, ``(num_steps, num_envs, dim)``; of a
            memory that is not full, rows from ``index`` on do not count.
        share: The process's environments.
        memory_size: Most steps that its memory holds; the newest are kept.
    """
    if any(tensor.shape[1] != share.num_envs_before for tensor in saved[0]["tensors"].values()):
        return dict(saved[0])
    num_steps = [
        next((len(tensor) for tensor in each["tensors"].values()), 0)
        if each["filled"]
        else each["index"]
        for each in saved
    ]
    tensors, kept = {}, 0
    for name in saved[0]["tensors"]:
        rings = [
            Ring(each["tensors"][name][:held], held + each["index"] if each["filled"] else held)
            for each, held in zip(saved, num_steps, strict=True)
        ]
        tensors[name] = dealt_steps(rings, share, memory_size)
        kept = len(tensors[name])
    return {"index": kept % memory_size, "filled": kept == memory_size, "tensors": tensors}
