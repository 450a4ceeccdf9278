"""What a recording of a step repeats: parts that it would not, and a GPU's graphs on a CPU."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_LEAVES_TORCH = {
    torch.Tensor.numpy: "numpy",
    torch.Tensor.__dlpack__: "__dlpack__",
    torch.Tensor.apply_: "apply_",
    torch.Tensor.__array__: "__array__",
    torch.Tensor.tolist: "tolist",
}
"""Functions that expose a CPU's memory to code that may read and write it unseen."""


class Watch(TorchDispatchMode):
    """Finds operations that graphs would not repeat, and keeps the memory that graphs read."""

    def __init__(self) -> None:
        super().__init__()
        self._exits = _Exits(self)
        self.obstacle: str | None = None
        """Why the step cannot be recorded, as a part of a sentence."""
        self._before: Mapping[int, torch.Tensor | None] = {}
        self._made: dict[int, torch.Tensor | None] = {}
        """Tensors that the previous step made, and this one, by storage."""
        self._made_between: set[int] = set()
        self._read: dict[int, torch.Tensor] = {}
        self._keep_made, self._is_between = True, False
        self._done: list[Any] = []
        """This step's operations with their arguments; then those of the previous step."""
        self._expected: list[Any] | None = None
        self._fixed: set[int] = set()
        """Storages to which tensors made between graphs were copied."""
        self._held: list[Any] = []
        """Tensors whose storages are compared, so that no other gets the same address."""

    def __enter__(self) -> Self:
        self._exits.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._exits.__exit__(*error)

    def start_step(self, *, keep_made: bool) -> None:
        """Distinguish this step's tensors from those of the previous step.

        Args:
            keep_made: Whether they are kept, so that no two have the same storage; not in a
                recording, where their memory is the graphs' own.
        """
        self._before, self._made = (self._made if keep_made else {}), {}
        self._made_between = set()
        self._read = {}
        self._keep_made = keep_made
        self._expected, self._done = (self._done or None), []
        self._fixed = set()

    @contextlib.contextmanager
    def between(self) -> Iterator[None]:
        """Ignore operations that are not recorded."""
        before, self._is_between = self._is_between, True
        try:
            yield
        finally:
            self._is_between = before

    def see_read(self, name: str) -> None:
        """Note that an operation's result depends on values that the host reads."""
        if not self._is_between and self.obstacle is None:
            self.obstacle = _reading(name)

    def admit(self, values: Any) -> None:
        """Let graphs read tensors made between them."""
        self._made_between -= _by_storage(values).keys()
        self._fixed |= _by_storage(values).keys()
        self._held.append(values)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "profiler":  # marks of torch's optimizers, which move no data
            return func(*args, **kwargs)
        given = _by_storage((args, kwargs))
        watches = not self._is_between and self.obstacle is None
        difference = self._difference(func, args, kwargs) if watches else None
        results = func(*args, **kwargs)
        new = {key: one for key, one in _by_storage(results).items() if key not in given}
        if self._is_between:
            self._made_between |= new.keys()
        elif watches:
            self.obstacle = self._obstacle(func, args, given, new, results) or difference
        self._read |= {key: one for key, one in given.items() if key not in self._made}
        self._made |= new if self._keep_made else dict.fromkeys(new)
        return results

    def _difference(self, func: Any, args: Any, kwargs: Any) -> str | None:
        """Describe how an operation or its arguments differ from the previous step, if they do."""
        leaves = tree_leaves((args, kwargs))
        if any(_is_sparse(leaf) for leaf in leaves):
            return f"{_place()} uses a sparse tensor"
        mine = (func, [self._sign(leaf) for leaf in leaves])
        index = len(self._done)
        self._done.append(mine)
        if self._expected is None or self._expected[index : index + 1] == [mine]:
            return None
        return (
            f"{_place()} does something else in each step ({func._schema.name}), such as with a "
            "number that Python counts, or with another tensor: count in a tensor, in place, and "
            "keep one tensor for each thing"
        )

    def _sign(self, value: Any) -> Any:
        """Return a value that is equal in each step if the argument is."""
        if not isinstance(value, torch.Tensor):
            return repr(value)  # NaN is not equal to itself
        key = value.untyped_storage()._cdata
        is_outside = key not in self._made and key not in self._fixed
        if is_outside:
            self._held.append(value)
        layout = (value.dtype, tuple(value.shape), value.stride(), value.storage_offset())
        return (key if is_outside else None, layout)

    def _obstacle(
        self,
        func: Any,
        args: Sequence[Any],
        given: Mapping[int, torch.Tensor],
        new: Mapping[int, torch.Tensor],
        results: Any,
    ) -> str | None:
        if reads_host(func, args) or any(
            isinstance(leaf, bool | int | float) for leaf in tree_leaves(results)
        ):
            return _reading(func._schema.name)
        tensors = (*given.values(), *new.values())
        is_mixed = len({tensor.device.type for tensor in tensors}) > 1
        # Operations accept a number on the host, but copies of one are recorded as copies.
        is_number = not any(tensor.dim() for tensor in tensors if tensor.device.type == "cpu")
        is_copy = func._schema.name in ("aten::_to_copy", "aten::copy_")
        if (is_mixed and (is_copy or not is_number)) or func._schema.name == "aten::lift_fresh":
            return (
                f"{_place()} copies from or to the host ({func._schema.name}): make its tensors "
                "once, on the device, and write numbers by fill_()"
            )
        if not given.keys().isdisjoint(self._before) or not given.keys().isdisjoint(
            self._made_between
        ):
            return (
                f"{_place()} reads a tensor that the step before or a curriculum made; what is "
                "remembered must be written in place: self.last.copy_(new), not self.last = new"
            )
        return None


class Undo(TorchDispatchMode):
    """Saves the contents of memory before torch writes to it while this is entered."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Bytes of a storage, and a copy of them, by its address."""

    def restore(self) -> None:
        """Restore the contents."""
        for memory, copy in self._kept.values():
            memory.copy_(copy)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            for index, argument in enumerate(func._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    is_named = argument.kwarg_only or index >= len(args)
                    self._keep(kwargs.get(argument.name) if is_named else args[index])
        return func(*args, **kwargs)

    def _keep(self, values: Any) -> None:
        for key, tensor in _by_storage(values).items():
            if key not in self._kept:
                storage = tensor.untyped_storage()
                memory = torch.empty(0, dtype=torch.uint8, device=tensor.device)
                memory.set_(storage, 0, (storage.nbytes(),), (1,))
                self._kept[key] = memory, memory.clone()


class _Exits(TorchFunctionMode):
    """Sees tensors handed to NumPy and to lists, which on a CPU are not torch operations."""

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
    """Return whether an operation's result depends on values for which the host would wait."""
    if func._schema.name in ("aten::index", "aten::index_put_"):
        return any(arg is not None and arg.dtype == torch.bool for arg in args[1])
    return bool({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(func.tags))


def _by_storage(values: Any) -> dict[int, torch.Tensor]:
    return {
        leaf.untyped_storage()._cdata: leaf
        for leaf in tree_leaves(values)
        if isinstance(leaf, torch.Tensor) and not _is_sparse(leaf)
    }


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def _reading(name: str) -> str:
    """Return how an operation, by name, depends on values that the host reads."""
    return (
        f"{_place()} reads a tensor's values ({name}): decide by torch.where or a mask's product, "
        "not in Python"
    )


def _place() -> str:
    """Return the function that called torch, and its place in the source."""
    passed_through = (
        str(Path(torch.__file__).parent),
        __file__,
        str(Path(__file__).with_name("recording.py")),
    )
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(passed_through):
            return f"{frame.name}() in {frame.filename}, line {frame.lineno},"
    return "torch"


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
