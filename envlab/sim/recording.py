"""A GPU's step as graphs: what it launches is recorded once, and then repeated without Python.

Each of torch's operations is a kernel that Python launches, in some 5 us, many times what the
arithmetic of a small task takes. A recording is a chain of torch's graphs and of the calls between
them that torch cannot record: physics, which is a graph of Warp's own, and curricula, which go by
numbers of the host.

A graph repeats operations on the addresses that they had. So what is recorded may not read a value
on the host, and what it remembers from one step to the next it must write in place. Both are looked
for in the steps before, and what is found is named and not recorded. What cannot be seen is a count
kept in Python, which would stand still.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from envlab.errors import SimulationError

logger = logging.getLogger(__name__)

Method = TypeVar("Method", bound=Callable[..., Any])

_WARM_UP = 3
"""Steps that make what is made once: constants, kernels, the plan of a step's draws."""
_WATCHED = 2
"""Steps after these in which we look for what cannot be recorded."""
_READS = ("_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2")
"""Operations whose result the host waits for."""


class Graph(Protocol):
    """Records what is launched while it is entered, which has run by the time that it is left."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...

    def replay(self) -> None:
        """Run what was recorded once more."""


class CudaGraph:
    """What torch launches on the current GPU."""

    def __init__(self, pool: Any) -> None:
        """Record into ``pool``, of :func:`torch.cuda.graph_pool_handle`."""
        self._graph = torch.cuda.CUDAGraph()
        # By thread, as others may use the GPU meanwhile.
        self._capture = torch.cuda.graph(self._graph, pool, capture_error_mode="thread_local")

    def __enter__(self) -> None:
        self._capture.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._capture.__exit__(*error)
        if error == (None, None, None):
            self.replay()  # nothing has run so far

    def replay(self) -> None:
        """Run what was recorded on the current stream."""
        self._graph.replay()


NewGraphs = Callable[[], Callable[[], Graph]]
"""Returns what makes the graphs of one recording, one after the other."""


def cuda_graphs() -> Callable[[], Graph]:
    """Return what makes graphs that share their memory, as those of one recording do."""
    return functools.partial(CudaGraph, torch.cuda.graph_pool_handle())


def between_graphs(method: Method) -> Method:
    """Decorate what runs in Python in each step of a recording, between two of its graphs.

    Tensors that it is given have the same addresses in every step. What it returns is copied to
    where the next graph reads it; what else it changes, it must change in place.
    """

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _current is None:
            return method(*args, **kwargs)
        return _current.call(functools.partial(method, *args, **kwargs))

    return call  # type: ignore[return-value]


_current: Recording | None = None
"""The recording that is being made."""


class Recording:
    """Runs a function in every step: at first as it is, and then by its graphs."""

    def __init__(
        self,
        function: Callable[[], Any],
        new_graphs: NewGraphs = cuda_graphs,
        *,
        is_required: bool = False,
    ) -> None:
        """Prepare to record.

        Args:
            function: Returns tensors within tuples and dicts, and changes others in place.
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether a function that cannot be recorded is an error.
        """
        self._function, self._new_graphs, self._is_required = function, new_graphs, is_required
        self._obstacle: str | None = None
        self.forget()

    def forget(self) -> None:
        """Record anew: the caller may have replaced tensors that graphs read."""
        self._steps = 0
        self._watch = _Watch()
        self._graph: Graph | None = None
        self._parts: list[Callable[[], None]] = []
        self._results: _Copies | None = None

    @property
    def is_made(self) -> bool:
        """Whether the next step is one of graphs."""
        return self._results is not None

    def run(self) -> Any:
        """Return what the function does, in tensors that the next step leaves alone.

        Raises:
            SimulationError: If the function cannot be recorded, and that is required or only seen
                while it is being recorded.
        """
        if self._results is not None:
            for part in self._parts:
                part()
            return self._results.make()
        self._steps += 1
        if self._obstacle is not None or self._steps <= _WARM_UP:
            return self._function()
        is_watched = self._steps <= _WARM_UP + _WATCHED
        self._watch.start_step(keep_made=is_watched)
        with _made_current(self), self._watch:
            result = self._function() if is_watched else self._record()
        if is_watched and self._watch.obstacle is not None:
            self._give_up(self._watch.obstacle)
        return result

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function between two graphs; see :func:`between_graphs`."""
        is_recorded = self._graph is not None
        if is_recorded:
            self._close()
        with self._watch.between():
            fixed = _Copies(function()).make()
        self._watch.admit(fixed)
        if is_recorded:
            target = _Copies(fixed)
            self._parts.append(lambda: target.fill(function()))
            self._open()
        return fixed

    def _record(self) -> Any:
        self._new_graph = self._new_graphs()
        try:
            self._open()
            results = self._function()
            self._close()
        except RuntimeError as error:
            raise SimulationError(
                f"The step cannot be recorded as graphs ({error}). Set env.graph=off."
            ) from error
        finally:
            if self._graph is not None:
                with contextlib.suppress(RuntimeError):  # it tells of the same error once more
                    self._graph.__exit__(*sys.exc_info())
                self._graph = None
        self._results = _Copies(results)
        return self._results.make()

    def _open(self) -> None:
        self._graph = self._new_graph()
        self._graph.__enter__()

    def _close(self) -> None:
        graph, self._graph = self._graph, None
        assert graph is not None
        graph.__exit__(None, None, None)
        self._parts.append(graph.replay)

    def _give_up(self, obstacle: str) -> None:
        self.forget()
        self._obstacle = obstacle
        if self._is_required:
            raise SimulationError(
                f"env.graph=on, but the step cannot be recorded as graphs: {obstacle}. Change "
                "that, or set env.graph=auto to go on without graphs."
            )
        logger.warning("The step is not recorded as graphs: %s.", obstacle)


class _Watch(TorchDispatchMode):
    """Looks for what graphs would not repeat, and keeps the memory that they read."""

    def __init__(self) -> None:
        super().__init__()
        self.obstacle: str | None = None
        """Why the step cannot be recorded, as a part of a sentence."""
        self._before: Mapping[int, torch.Tensor | None] = {}
        self._made: dict[int, torch.Tensor | None] = {}
        """What the step before made, and this one, by storage."""
        self._made_between: set[int] = set()
        self._read: dict[int, torch.Tensor] = {}
        self._keep_made, self._is_between = True, False

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
            return f"{_place()} reads a value of the GPU ({func._schema.name})"
        tensors = (*given.values(), *new.values())
        is_mixed = len({one.device.type for one in tensors}) > 1
        # Operations take a number of the host, but copies of one are recorded as copies.
        is_number = not any(one.dim() for one in tensors if one.device.type == "cpu")
        is_copy = func._schema.name in ("aten::_to_copy", "aten::copy_")
        if is_mixed and (is_copy or not is_number) or func._schema.name == "aten::lift_fresh":
            return f"{_place()} copies from or to the host ({func._schema.name})"
        if not given.keys().isdisjoint(self._before) or not given.keys().isdisjoint(
            self._made_between
        ):
            return (
                f"{_place()} reads a tensor that the step before or a curriculum made; what is "
                "remembered must be written in place"
            )
        return None


def reads_host(func: Any, args: Sequence[Any]) -> bool:
    """Tell whether an operation's result depends on values that the host would have to wait for."""
    name = func._schema.name.removeprefix("aten::")
    if name in ("index", "index_put_"):
        return any(one is not None and one.dtype == torch.bool for one in args[1])
    return name in _READS


class _Copies:
    """Makes copies of what is in some tensors, which are within tuples and dicts."""

    def __init__(self, values: Any) -> None:
        self._leaves, self._shape = tree_flatten(values)
        by_type: dict[torch.dtype, list[int]] = {}  # each type is copied at once
        for index, leaf in enumerate(self._leaves):
            if isinstance(leaf, torch.Tensor):
                by_type.setdefault(leaf.dtype, []).append(index)
        self._groups = list(by_type.values())

    def make(self) -> Any:
        """Return copies, which are none of inference mode's: others may write to them."""
        leaves = list(self._leaves)
        with torch.inference_mode(False), torch.no_grad():
            for group in self._groups:
                tensors = [self._leaves[index] for index in group]
                fresh = [torch.empty_like(one) for one in tensors]
                torch._foreach_copy_(fresh, tensors)
                for index, one in zip(group, fresh, strict=True):
                    leaves[index] = one
        return tree_unflatten(leaves, self._shape)

    def fill(self, values: Any) -> None:
        """Copy other values to these."""
        others = tree_leaves(values)
        for group in self._groups:
            torch._foreach_copy_(
                [self._leaves[index] for index in group], [others[index] for index in group]
            )


def _by_storage(values: Any) -> dict[int, torch.Tensor]:
    return {
        one.untyped_storage()._cdata: one
        for one in tree_leaves(values)
        if isinstance(one, torch.Tensor)
    }


def _place() -> str:
    """Return which function called torch, and where it is written."""
    torch_files = str(Path(torch.__file__).parent)
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith((torch_files, __file__)):
            return f"{frame.name}() in {frame.filename}, line {frame.lineno},"
    return "torch"


@contextlib.contextmanager
def collection_suspended() -> Iterator[None]:
    """Suspend garbage collection, which during a capture can free what the graph uses."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _made_current(recording: Recording) -> Iterator[None]:
    global _current
    _current = recording
    try:
        with collection_suspended():
            yield
    finally:
        _current = None
