"""Keeps torch's compiler out of a process until something is compiled.

``torch._dynamo`` and the 300 modules behind it take about a second of CPU to import, and 34 to
69 MB. Each step of an optimizer imports it, to call ``graph_break()``, and so does tensordict, to
mark functions that the compiler must not look into. Neither has an effect until something is
compiled. So a module of the same name answers these few calls. At the first use of anything else,
such as by ``torch.compile``, it becomes torch's own module, and the marks are made.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

_NAME = "torch._dynamo"


def import_compiler_late() -> None:
    """Import torch's compiler only when it is needed; no effect if it has been imported."""
    if _NAME not in sys.modules:
        sys.modules[_NAME] = torch._dynamo = _LateCompiler()  # type: ignore[assignment]


class _LateCompiler(ModuleType):
    """Answers the calls of torch and tensordict until the first compilation (torch 2.13.0)."""

    def __init__(self) -> None:
        super().__init__(_NAME)
        spec = importlib.util.find_spec(_NAME)
        assert spec is not None
        self.__spec__ = spec
        self.__file__ = spec.origin
        self._marked: list[tuple[str, Any]] = []
        self._unwrapped: list[Any] = []
        self.graph_break = lambda msg="": None
        for name in ("allow_in_graph", "assume_constant_result"):
            setattr(self, name, self._marking(name))
        self.disable = self._disable
        # Used by a new process group, and by DistributedDataParallel.
        self.trace_rules = _Part(self, "trace_rules", clear_lru_cache=lambda: None)
        self.utils = _Part(self, "utils", get_optimize_ddp_mode=lambda: "ddp_optimizer")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)  # read from every module by warnings and inspect
        self._become_torchs()
        return getattr(self, name)

    def _marking(self, name: str) -> Callable[[Any], Any]:
        def mark(function: Any) -> Any:
            self._marked.append((name, function))
            return function

        return mark

    def _disable(self, fn: Any = None, recursive: bool = True, **settings: Any) -> Any:
        """Return torch's own function unchanged; ``torch._compile`` keeps it in an attribute."""
        if settings.get("wrapping", True):
            self._become_torchs()
            return self.disable(fn, recursive, **settings)
        self._unwrapped.append(fn)
        return fn

    def _become_torchs(self) -> None:
        spec, marked, unwrapped = self.__spec__, self._marked, self._unwrapped
        assert spec is not None
        assert spec.loader is not None
        vars(self).clear()
        self.__class__ = ModuleType  # type: ignore[assignment]
        for name, value in vars(importlib.util.module_from_spec(spec)).items():
            setattr(self, name, value)
        spec.loader.exec_module(self)
        for name, function in marked:
            getattr(self, name)(function)
        for function in unwrapped:
            delattr(function, "__dynamo_disable")


class _Part(SimpleNamespace):
    """A module of the compiler with only one function."""

    def __init__(self, whole: _LateCompiler, name: str, **answers: Callable[[], Any]) -> None:
        super().__init__(**answers)
        self._whole, self._name = whole, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if isinstance(self._whole, _LateCompiler):
            self._whole._become_torchs()
        return getattr(getattr(self._whole, self._name), name)
