"""Counts torch's operations: on a GPU, each is a kernel to be launched."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from envlab.sim.recordable import reads_host

_JOINS = {"aten::cat", "aten::stack"}


def _joined(tensors: Sequence[torch.Tensor], kwargs: Mapping[str, Any] | None) -> list[Any]:
    """Return what is joined, with the tensor that it is written to, if any."""
    return [*tensors, *([kwargs["out"]] if kwargs and "out" in kwargs else [])]


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
        if name in _JOINS and len({tensor.dtype for tensor in _joined(args[0], kwargs)}) > 1:
            self.count += len(args[0])  # a GPU copies each alone if their types differ
        else:
            self.count += not func.is_view and name != "aten::detach"
        if reads_host(func, args):
            self.waits.append(name)
        return func(*args, **(kwargs or {}))


_MOVES = {
    torch.Tensor.tolist,
    torch.Tensor.cpu,
    torch.Tensor.numpy,
    torch.Tensor.new_tensor,
    torch.tensor,
}
"""Functions that move values between host and device, which on a CPU are no operations of torch."""
_PHYSICS = "/envlab/sim/"
"""A CPU's physics reads and writes its memory by NumPy, and recordings return its numbers."""


class Reads(TorchFunctionMode):
    """Lists where a host would wait for a GPU, or copy to it, while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        """What it would be, with its place in the source."""
        self._waits = _Waits(self)

    def __enter__(self) -> Self:
        self._waits.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._waits.__exit__(*error)

    def note(self, name: str) -> None:
        """Note that something of a name waits, unless it is a CPU's alone."""
        for frame in reversed(traceback.extract_stack()):
            if "/torch/" not in frame.filename and frame.filename != __file__:
                if _PHYSICS not in frame.filename:
                    self.found.append(f"{name} in {frame.filename}, line {frame.lineno}")
                return

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _MOVES:
            self.note(func.__name__)
        return func(*args, **(kwargs or {}))


class _Waits(TorchDispatchMode):
    """Sees operations whose results depend on values, and numbers that become tensors.

    ``values[0, 1] = 3.0`` does the latter, and then copies from the host.
    """

    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self._reads = reads

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func._schema.name  # private: torch has no other name for it
        if reads_host(func, args) or name == "aten::lift_fresh":
            self._reads.note(name)
        return func(*args, **(kwargs or {}))
