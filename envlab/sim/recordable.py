"""Looks for what a recording of a step would not repeat; see :mod:`envlab.sim.recording`."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_READS = ("_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2")
"""Operations whose result the host waits for."""

_LEAVES_TORCH = {
    torch.Tensor.numpy: "numpy",
    torch.Tensor.__array__: "__array__",
    torch.Tensor.tolist: "tolist",
}
"""What shows a CPU's memory to others, who may read and write it unseen."""


class Watch(TorchDispatchMode):
    """Looks for what graphs would not repeat, and keeps the memory that they read."""

    def __init__(self) -> None:
        super().__init__()
        self._exits = _Exits(self)
        self.obstacle: str | None = None
        """Why the step cannot be recorded, as a part of a sentence."""
        self._before: Mapping[int, torch.Tensor | None] = {}
        self._made: dict[int, torch.Tensor | None] = {}
        """What the step before made, and this one, by storage."""
        self._made_between: set[int] = set()
        self._read: dict[int, torch.Tensor] = {}
        self._keep_made, self._is_between = True, False

    def __enter__(self) -> Self:
        self._exits.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._exits.__exit__(*error)

    def start_step(self, *, keep_made: bool) -> None:
        """Tell this step's tensors from those of the step before.

        Args:
            keep_made: Whether they are kept, so that no two have the same storage; in a recording
                they are not, as their memory is the graphs' own.
        """
        self._before, self._made = (self._made if keep_made else {}), {}
        self._made_between = set()
        self._read = {}
        self._keep_made = keep_made

    @contextlib.contextmanager
    def between(self) -> Iterator[None]:
        """Let what is not recorded do as it likes."""
        self._is_between = True
        try:
            yield
        finally:
            self._is_between = False

    def see_read(self, name: str) -> None:
        """Take note that an operation's result depends on values that the host reads."""
        if not self._is_between and self.obstacle is None:
            self.obstacle = f"{_place()} reads a tensor's values ({name})"

    def admit(self, values: Any) -> None:
        """Let graphs read tensors that were made between them."""
        self._made_between -= _by_storage(values).keys()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        given = _by_storage((args, kwargs))
        results = func(*args, **kwargs)
        new = {key: one for key, one in _by_storage(results).items() if key not in given}
        if self._is_between:
            self._made_between |= new.keys()
        elif self.obstacle is None:
            self.obstacle = self._obstacle(func, args, given, new)
        self._read |= {key: one for key, one in given.items() if key not in self._made}
        self._made |= new if self._keep_made else dict.fromkeys(new)
        return results

    def _obstacle(
        self,
        func: Any,
        args: Sequence[Any],
        given: Mapping[int, torch.Tensor],
        new: Mapping[int, torch.Tensor],
    ) -> str | None:
        if reads_host(func, args):
            return f"{_place()} reads a tensor's values ({func._schema.name})"
        tensors = (*given.values(), *new.values())
        is_mixed = len({one.device.type for one in tensors}) > 1
        # Operations take a number of the host, but copies of one are recorded as copies.
        is_number = not any(one.dim() for one in tensors if one.device.type == "cpu")
        is_copy = func._schema.name in ("aten::_to_copy", "aten::copy_")
        if (is_mixed and (is_copy or not is_number)) or func._schema.name == "aten::lift_fresh":
            return f"{_place()} copies from or to the host ({func._schema.name})"
        if not given.keys().isdisjoint(self._before) or not given.keys().isdisjoint(
            self._made_between
        ):
            return (
                f"{_place()} reads a tensor that the step before or a curriculum made; what is "
                "remembered must be written in place"
            )
        return None


class _Exits(TorchFunctionMode):
    """Sees tensors handed to NumPy and to lists, which on a CPU are no operations of torch's."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _LEAVES_TORCH:
            self._watch.see_read(_LEAVES_TORCH[func])
        return func(*args, **(kwargs or {}))


def reads_host(func: Any, args: Sequence[Any]) -> bool:
    """Tell whether an operation's result depends on values that the host would have to wait for."""
    name = func._schema.name.removeprefix("aten::")
    if name in ("index", "index_put_"):
        return any(one is not None and one.dtype == torch.bool for one in args[1])
    return name in _READS


def _by_storage(values: Any) -> dict[int, torch.Tensor]:
    return {
        one.untyped_storage()._cdata: one
        for one in tree_leaves(values)
        if isinstance(one, torch.Tensor)
    }


def _place() -> str:
    """Return which function called torch, and where it is written."""
    passed_through = (
        str(Path(torch.__file__).parent),
        __file__,
        str(Path(__file__).with_name("recording.py")),
    )
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(passed_through):
            return f"{frame.name}() in {frame.filename}, line {frame.lineno},"
    return "torch"
