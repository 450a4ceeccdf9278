"""Counts torch's operations: on a GPU, each is a kernel to be launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from envlab.sim.recordable import reads_host


class Operations(TorchDispatchMode):
    """Counts operations while it is entered, except views, which move no data."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.waits: list[str] = []
        """Those among them whose result depends on values that the host would have to wait for."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func._schema.name  # private: torch has no other name for it
        self.count += not func.is_view and name != "aten::detach"
        if reads_host(func, args):
            self.waits.append(name)
        return func(*args, **(kwargs or {}))
