"""How many of torch's operations something takes: on a GPU, each is a kernel to be launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """Counts operations while it is entered, but not those that only look at the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.count += not func.is_view and func._schema.name != "aten::detach"
        return func(*args, **(kwargs or {}))
