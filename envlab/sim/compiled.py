"""A recorded step, compiled: a hundred small operations become a few loops over the batch.

torch's operations are traced as they run, and repeated by TorchInductor's kernels on the same
memory; see :mod:`envlab.sim.recording`. On a GPU these kernels are recorded as CUDA graphs.
Compiled arithmetic rounds differently from torch's own.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from envlab.errors import ConfigurationError
from envlab.sim.recording import Graph as Recorded
from envlab.sim.recording import NewGraphs, cuda_graphs

_as_strided, _copy = torch.ops.aten.as_strided.default, torch.ops.aten.copy_.default
_nan_to_num, _ZEROS = torch.ops.aten.nan_to_num.default, (None, 0.0, 0.0)
_to = torch.ops.aten._to_copy.default


class _Made(NamedTuple):
    """Memory that the step allocates: the operation that did, and the layout of its result."""

    node: Node
    place: tuple[list[int], list[int], int]
    dtype: torch.dtype


class CompiledGraph(TorchDispatchMode):
    """The operations of torch while it is entered, as one compiled function of their memory."""

    def __init__(self, launches: Recorded | None = None) -> None:
        """Trace from the next entry on.

        Args:
            launches: Records what the compiled function launches; None: Python calls it.
        """
        super().__init__()
        self._launches = launches
        self._graph = Graph()
        self._nodes = WeakTensorKeyDictionary()
        """Nodes of tensors in use, including those that a term keeps."""
        self._made: dict[int, _Made] = {}
        self._inputs: dict[int, tuple[Node, torch.Tensor]] = {}
        """Memory from outside, whole and flat; by its address, like :attr:`_made`."""
        self._repeat: Callable[[], Any]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if error == (None, None, None):
            self._keep_what_is_in_use()
            self._compile()

    def replay(self) -> None:
        """Repeat the operations."""
        self._repeat()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        given = {_address(leaf) for leaf in tree_leaves((args, kwargs)) if _is_tensor(leaf)}
        traced, named = tree_map(self._node_of, (tuple(args), dict(kwargs)))
        results = func(*args, **kwargs)
        if func is _nan_to_num and args[1:] == _ZEROS and args[0].is_floating_point():
            node = self._zero_unless_finite(traced[0])
        else:
            node = self._graph.call_function(func, traced, named)
        if isinstance(results, torch.Tensor):
            self._note(results, node, given)
        elif isinstance(results, list | tuple):
            for index, result in enumerate(results):
                if _is_tensor(result):
                    item = self._graph.call_function(operator.getitem, (node, index))
                    self._note(result, item, given)
        return results

    def _zero_unless_finite(self, values: Node) -> Node:
        """Return the result of ``nan_to_num``, whose search for NaN is not vectorised here."""
        size = self._graph.call_function(torch.ops.aten.abs.default, (values,))
        finite = self._graph.call_function(torch.ops.aten.lt.Scalar, (size, math.inf))
        return self._graph.call_function(torch.ops.aten.where.ScalarOther, (finite, values, 0.0))

    def _note(self, tensor: torch.Tensor, node: Node, given: set[int]) -> None:
        if tensor in self._nodes:  # changed in place
            return
        self._nodes[tensor] = node
        if _address(tensor) not in given:
            self._made[_address(tensor)] = _Made(node, _place(tensor), tensor.dtype)

    def _node_of(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value not in self._nodes:
            made = self._made.get(_address(value))
            memory = self._input(value) if made is None else made.node
            dtype = made.dtype if made is not None else self._inputs[_address(value)][1].dtype
            if dtype != value.dtype:
                raise RuntimeError(
                    f"memory of {dtype} is read as {value.dtype}, by a view that was made before"
                )
            self._nodes[value] = self._graph.call_function(_as_strided, (memory, *_place(value)))
        return self._nodes[value]

    def _input(self, tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Node:
        """Return the placeholder of the memory of ``tensor``, read as a ``dtype``."""
        address = _address(tensor)
        if address not in self._inputs:
            storage = tensor.untyped_storage()
            flat = torch.empty(0, dtype=dtype or tensor.dtype, device=tensor.device)
            size = storage.nbytes() // flat.element_size()
            flat.set_(storage, 0, (size,), (1,))
            with self._graph.inserting_before(next(iter(self._graph.nodes), None)):
                node = self._graph.placeholder(f"memory_{len(self._inputs)}")
            self._inputs[address] = node, flat
        return self._inputs[address][0]

    def _keep_what_is_in_use(self) -> None:
        """Write results, and tensors that terms keep, to their original addresses."""
        in_use = {_address(tensor): tensor for tensor in self._nodes}
        for address, tensor in in_use.items():
            if address in self._made:
                node, place, dtype = self._made.pop(address)
                if dtype == torch.bool:  # as bytes, which are written 16 at a time, unlike bools
                    dtype = torch.uint8
                    node = self._graph.call_function(_to, (node,), {"dtype": torch.float32})
                    node = self._graph.call_function(_to, (node,), {"dtype": dtype})
                memory = self._input(tensor, dtype)
                target = self._graph.call_function(_as_strided, (memory, *place))
                self._graph.call_function(_copy, (target, node))

    def _compile(self) -> None:
        """Compile the traced operations.

        Raises:
            RuntimeError: If torch cannot, for lack of a compiler.
        """
        by_node = dict(self._inputs.values())
        self._memory: list[Any] = [
            by_node[node] for node in self._graph.find_nodes(op="placeholder")
        ]
        if not self._memory:  # two calls follow one another
            self._repeat = lambda: None
            return
        self._graph.output(())
        try:
            module = GraphModule({}, self._graph)
            from torch import _inductor  # deferred: it takes a second

            with _disable_current_modes():
                # The memory never changes its layout, so it need not be checked.
                run = _inductor.compile(module, self._memory, {"size_asserts": False})
        except Exception as error:  # whatever a compiler may raise
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise RuntimeError(
                f"torch cannot compile here: {line}; on a CPU it needs a C++ compiler, on a GPU "
                "Triton"
            ) from error
        self._repeat = functools.partial(run, *self._memory)
        if self._launches is not None:
            self._record(self._launches)

    def _record(self, launches: Recorded) -> None:
        """Record the launches, and leave memory as the traced operations did."""
        with _disable_current_modes(), torch.no_grad():
            kept = [memory.clone() for memory in self._memory]
            self._repeat()  # kernels are loaded and tuned, which cannot be recorded
            torch._foreach_copy_(self._memory, kept)
            with launches:
                self._repeat()
            torch._foreach_copy_(self._memory, kept)
        self._repeat = launches.replay


def compiled_graphs(device: torch.device) -> NewGraphs:
    """Return what makes compiled graphs on a device; on a GPU they are CUDA graphs too."""
    if device.type != "cuda":
        return lambda: CompiledGraph

    def new_graphs() -> Callable[[], CompiledGraph]:
        new_graph = cuda_graphs()
        return lambda: CompiledGraph(new_graph())

    return new_graphs


def check_compiler_cache() -> None:
    """Refuse a folder for compiled code that cannot be made; torch would fail on it later.

    Raises:
        ConfigurationError: With the folder and the problem.
    """
    try:
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        cache_dir()
    except OSError as error:
        raise ConfigurationError(
            f"env.graph=compiled needs a folder for what it compiles, which cannot be made: "
            f"{error}. Set TORCHINDUCTOR_CACHE_DIR to one that can."
        ) from error


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _place(tensor: torch.Tensor) -> tuple[list[int], list[int], int]:
    return list(tensor.size()), list(tensor.stride()), int(tensor.storage_offset())
