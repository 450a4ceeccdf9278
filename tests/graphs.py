"""A GPU's graphs on a CPU: operations that are repeated at their original addresses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from envlab.envs import VectorEnv
from envlab.sim.recording import Recording


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
                if not func._schema.is_mutable:  # private: torch has no other name for it
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


@contextlib.contextmanager
def capturable_on_a_cpu() -> Iterator[None]:
    """Let torch's optimizers keep all on a CPU's tensors, as they do on a GPU's."""
    name, yes = "_get_capturable_supported_devices", lambda *_: ["cpu"]
    adam, base = (sys.modules[f"torch.optim.{module}"] for module in ("adam", "optimizer"))
    with mock.patch.object(adam, name, yes), mock.patch.object(base, name, yes):
        yield


def record_steps(env: VectorEnv) -> Recording:
    """Have the steps of an environment on a CPU recorded, as ``env.graph=on`` does on a GPU."""
    return env.record_steps(lambda: RepeatedOperations, is_required=True)
