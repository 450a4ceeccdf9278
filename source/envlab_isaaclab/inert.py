"""Modules that can be imported, subclassed and called, and do nothing: Kit's, without Kit.

Isaac Lab imports ``omni``, ``carb``, ``isaacsim`` and ``pxr`` at the top of its files, mostly for
windows, USD and rendering. Each name of such a module is a separate class, created on first use, so
that it can be a base class, a type hint, a decorator or a function.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Self

ROOTS = ("omni", "carb", "isaacsim", "pxr", "usdrt")
"""Packages that are inert."""


class _Kind(type):
    """Names of an inert class are inert classes."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = inert(name, f"{cls.__module__}.{cls.__name__}")
        setattr(cls, name, made)
        return made

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __int__(cls) -> int:
        return 0


class Inert(metaclass=_Kind):
    """An object whose every attribute, item and result is such an object, and which is false."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return Inert()

    def __getitem__(self, key: Any) -> Any:
        return Inert()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Forget the value."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """Leave a block."""


def inert(name: str, module: str) -> _Kind:
    """Return a new inert class."""
    return _Kind(name, (Inert,), {"__module__": module})


class InertModule(types.ModuleType):
    """A module that has every name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # a package, for any submodule

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = inert(name, self.__name__)
        setattr(self, name, made)
        return made
