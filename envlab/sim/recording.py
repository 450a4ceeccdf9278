"""A step as graphs: torch's operations are recorded once, and then repeated without Python.

Each operation of torch is a call from Python, which on a GPU launches a kernel. It takes some 5 us,
many times the arithmetic of a small task. A recording is a chain of graphs, of CUDA or compiled
(:mod:`envlab.sim.compiled`), and of the calls between them that torch cannot record: physics, which
is MuJoCo's or a graph of Warp's own, and curricula, which use values on the host.

A graph repeats operations on the same addresses. So recorded code must not read a value on the
host, and must write its memory from one step to the next in place. The steps before a recording are
checked for both, and a step that fails is not recorded, with the reason. A count kept in Python,
which would not advance, cannot be detected.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import logging
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from envlab.errors import ConfigurationError, SimulationError
from envlab.sim.recordable import Watch

logger = logging.getLogger(__name__)

Method = TypeVar("Method", bound=Callable[..., Any])

_WARM_UP = 3
"""Steps that set up constants, kernels and the plan of a step's draws, which are made once."""


class Graph(Protocol):
    """Records the operations launched while it is entered; they have run when it is left."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...

    def replay(self) -> None:
        """Run the recorded operations again."""


class CudaGraph:
    """torch's operations on the current GPU."""

    def __init__(self, pool: Any) -> None:
        """Record into ``pool``, of :func:`torch.cuda.graph_pool_handle`."""
        self._graph = torch.cuda.CUDAGraph()
        # By thread, as others may use the GPU at the same time.
        self._capture = torch.cuda.graph(self._graph, pool, capture_error_mode="thread_local")

    def __enter__(self) -> None:
        self._capture.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._capture.__exit__(*error)
        if error == (None, None, None):
            self.replay()  # nothing has run so far

    def replay(self) -> None:
        """Run the recorded operations on the current stream."""
        self._graph.replay()


NewGraphs = Callable[[], Callable[[], Graph]]
"""Returns a maker of the graphs of one recording."""


def cuda_graphs() -> Callable[[], Graph]:
    """Return a maker of graphs that share memory, for the graphs of one recording."""
    return functools.partial(CudaGraph, torch.cuda.graph_pool_handle())


def between_graphs(method: Method) -> Method:
    """Decorate a method that runs in Python in each step of a recording, between two graphs.

    Its tensor arguments have the same addresses in every step. Its results are copied to where the
    next graph reads them; any other changes must be in place.
    """

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _current.get()
        if recording is None:
            return method(*args, **kwargs)
        return recording.call(functools.partial(method, *args, **kwargs))

    return call  # type: ignore[return-value]


_current: ContextVar[Recording | None] = ContextVar("recording", default=None)
"""The recording being made in this thread."""


class Recording:
    """Runs a function in every step: first directly, then by its graphs.

    Attributes:
        num_watched: Steps after the first ones that are checked for what cannot be recorded.
    """

    num_watched = 2

    def __init__(
        self,
        function: Callable[[], Any],
        new_graphs: NewGraphs = cuda_graphs,
        *,
        asked: str = "env.graph=on",
        instead: str = "env.graph=off",
        is_required: bool = False,
        is_repeatable: bool = False,
    ) -> None:
        """Prepare to record.

        Args:
            function: Returns tensors within tuples and dicts, and changes others in place.
            new_graphs: See :data:`NewGraphs`.
            asked: The setting that requests it, to name if it fails.
            instead: The setting that works without recording.
            is_required: Whether a function that cannot be recorded is an error.
            is_repeatable: Whether a function whose recording fails may run again: it changes
                nothing but tensors, as a recording that fails has not.
        """
        self._function, self._new_graphs = function, new_graphs
        self._asked, self._instead, self._is_required = asked, instead, is_required
        self._is_repeatable = is_repeatable
        self._obstacle: str | None = None
        self.forget()

    def forget(self) -> None:
        """Record again: the caller may have replaced tensors that graphs read."""
        self._steps = 0
        self._watch = Watch()
        self._graph: Graph | None = None
        self._parts: list[Callable[[], None]] = []
        self._results: _Copies | None = None

    @property
    def is_made(self) -> bool:
        """Whether the next step runs graphs."""
        return self._results is not None

    @property
    def written(self) -> Any:
        """The tensors to which graphs write the function's results."""
        assert self._results is not None
        return self._results.originals

    def run(self) -> Any:
        """Return the function's results, in tensors that the next step does not change.

        A recorded step returns 0-d tensors on a CPU as numbers.

        Raises:
            SimulationError: If the function cannot be recorded, and that is required, or only
                detected while it is being recorded and it is not repeatable.
        """
        with _normal_tensors():
            return self._next()

    def _next(self) -> Any:
        if self._results is not None:
            for part in self._parts:
                part()
            return self._results.make(reads_numbers=True)
        self._steps += 1
        if self._obstacle is not None or self._steps <= _WARM_UP:
            return self._function()
        is_watched = self._steps <= _WARM_UP + self.num_watched
        self._watch.start_step(keep_made=is_watched)
        with _made_current(self), self._watch:
            result = self._function() if is_watched else self._record()
        if is_watched and self._watch.obstacle is not None:
            self._refuse(self._watch.obstacle)
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
            self._abandon()
            if self._is_required or not self._is_repeatable:
                raise SimulationError(
                    f"The step cannot be recorded ({error}). Set {self._instead}."
                ) from error
            self._refuse(str(error))
            return self._function()
        finally:
            self._abandon()
        self._results = _Copies(results)
        return self._results.make(reads_numbers=True)

    def _abandon(self) -> None:
        """Leave a graph in which an error was raised."""
        if self._graph is not None:
            with contextlib.suppress(RuntimeError):  # it reports the same error again
                self._graph.__exit__(*sys.exc_info())
            self._graph = None

    def _open(self) -> None:
        self._graph = self._new_graph()
        self._graph.__enter__()

    def _close(self) -> None:
        graph, self._graph = self._graph, None
        assert graph is not None
        graph.__exit__(None, None, None)
        self._parts.append(graph.replay)

    def give_up(self, obstacle: str = "") -> None:
        """Run the function directly from now on, for a reason that is a part of a sentence."""
        self.forget()
        self._obstacle = obstacle

    def _refuse(self, obstacle: str) -> None:
        self.give_up(obstacle)
        if self._is_required:
            raise SimulationError(
                f"{self._asked}, but the step cannot be recorded: {obstacle}. Change that, or set "
                f"{self._instead}."
            )
        logger.warning(
            "%s has no effect, as the step cannot be recorded: %s.", self._asked, obstacle
        )


def check_graph(graph: str, device: torch.device) -> None:
    """Refuse graphs where they are not possible.

    Raises:
        ConfigurationError: For ``env.graph=on`` without a GPU.
    """
    if graph == "on" and device.type != "cuda":
        raise ConfigurationError(
            f"env.graph=on records the steps of a GPU, but the environments are on {device}. "
            "Choose a GPU with --device cuda:0, or set env.graph=auto."
        )


def records_updates(
    graph: str, device: torch.device, obstacle: str | None, *, is_main: bool = True
) -> bool:
    """Return whether ``agent.graph`` has updates recorded on a device.

    Args:
        graph: ``auto``, ``off`` or ``on``.
        device: The learner's.
        obstacle: Why they cannot be, as a part of a sentence; None: they can.
        is_main: Whether this process says why they are not.

    Raises:
        ConfigurationError: If they must be, and cannot.
    """
    if graph == "on" and device.type != "cuda":
        raise ConfigurationError(
            f"agent.graph=on records the updates of a GPU, but this process learns on {device}. "
            "Choose a GPU with --device cuda:0, or set agent.graph=auto."
        )
    if graph == "off" or device.type != "cuda":
        return False
    if obstacle is None:
        return True
    if graph == "on":
        raise ConfigurationError(
            f"agent.graph=on, but updates cannot be recorded: {obstacle}. Set agent.graph=auto."
        )
    if is_main:
        logger.info("Updates are not recorded as graphs: %s.", obstacle)
    return False


def recording_of_updates(
    function: Callable[[], Any], new_graphs: NewGraphs = cuda_graphs, *, is_required: bool = False
) -> Recording:
    """Return a recording of a learner's function, as ``agent.graph`` asks for it.

    Args:
        function: See :class:`Recording`; it changes nothing but tensors.
        new_graphs: See :data:`NewGraphs`.
        is_required: Whether a function that cannot be recorded is an error; else it runs without
            graphs.
    """
    return Recording(
        function,
        new_graphs,
        asked="agent.graph=on" if is_required else "agent.graph=auto",
        instead="agent.graph=off",
        is_required=is_required,
        is_repeatable=True,
    )


class _Copies:
    """Copies the contents of tensors within tuples and dicts."""

    def __init__(self, values: Any) -> None:
        self.originals = values
        self._leaves, self._shape = tree_flatten(values)
        # Tensors of one type are copied together; numbers are read instead.
        by_type: dict[torch.dtype, list[int]] = {}
        numbers: dict[torch.dtype, list[int]] = {}
        for index, leaf in enumerate(self._leaves):
            if isinstance(leaf, torch.Tensor):
                is_number = leaf.dim() == 0 and leaf.device.type == "cpu"
                (numbers if is_number else by_type).setdefault(leaf.dtype, []).append(index)
        self._groups, self._numbers = list(by_type.values()), list(numbers.values())

    def make(self, *, reads_numbers: bool = False) -> Any:
        """Return copies that are not inference tensors: others may write to them."""
        leaves = list(self._leaves)
        groups = self._groups if reads_numbers else self._groups + self._numbers
        if reads_numbers:
            for index in itertools.chain.from_iterable(self._numbers):
                leaves[index] = leaves[index].item()
        with torch.inference_mode(False), torch.no_grad():
            for group in groups:
                tensors = [self._leaves[index] for index in group]
                fresh = [torch.empty_like(tensor) for tensor in tensors]
                torch._foreach_copy_(fresh, tensors)
                for index, one in zip(group, fresh, strict=True):
                    leaves[index] = one
        return tree_unflatten(leaves, self._shape)

    def fill(self, values: Any) -> None:
        """Copy other values to these."""
        others = tree_leaves(values)
        for group in self._groups + self._numbers:
            torch._foreach_copy_(
                [self._leaves[index] for index in group], [others[index] for index in group]
            )


@contextlib.contextmanager
def _normal_tensors() -> Iterator[None]:
    """Leave the caller's inference mode: graphs' tensors outlive it, and it hides operations."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


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
    token = _current.set(recording)
    try:
        with collection_suspended():
            yield
    finally:
        _current.reset(token)
