"""A GPU's graphs on a CPU: operations that are repeated at their original addresses.

Slower than the operations themselves, they tell whether a recorded step does what the step does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class RepeatedOperations(TorchDispatchMode):
    """Stands in for :class:`envlab.sim.recording.CudaGraph`; it also runs them while recording."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[Callable[[], None]] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        firsts = _tensors(results)

        def repeat() -> None:
            for first, result in zip(firsts, _tensors(func(*args, **kwargs)), strict=True):
                if not func._schema.is_mutable:
                    first.copy_(result)

        if not func.is_view and func.namespace != "profiler":
            self._calls.append(repeat)
        return results

    def replay(self) -> None:
        """Repeat the recorded operations."""
        with torch.no_grad():  # gradients are among the operations
            for call in self._calls:
                call()


def _tensors(values: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(values) if isinstance(one, torch.Tensor)]
