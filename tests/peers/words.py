"""Configurations of Isaac Lab and mjlab, run without the packages' simulators.

A configuration's file runs as it is; what it imports of a peer is a stand-in that remembers its
name and what it is given.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

PEERS = ("isaaclab", "isaaclab_tasks", "isaaclab_assets", "mjlab")


class _Named(type):
    """The class of stand-ins: what they lack is another stand-in."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _Named(name, (Word,), {})
        setattr(cls, name, found)
        return found

    def __getitem__(cls, name: str) -> Any:
        return getattr(cls, name)


class Word(metaclass=_Named):
    """A stand-in for anything of a peer, with the settings that it is given."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        vars(self).update(settings, args=args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _Named(name, (Word,), {})()
        setattr(self, name, found)
        return found


def configclass(cls: Any) -> Any:
    """Stand in for Isaac Lab's: fields are copied from the classes, then ``__post_init__``."""

    def __init__(self: Any, **settings: Any) -> None:
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if not name.startswith("__") and not isinstance(value, (type, FunctionType)):
                    setattr(self, name, copy.deepcopy(value))
        vars(self).update(settings)
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    cls.__init__ = __init__
    return cls


def run(path: Path, words: dict[str, Any], **known: Any) -> dict[str, Any]:
    """Run a file and return its names.

    Args:
        path: The file.
        words: The stand-ins by name, which files that belong together share; new ones are added.
        known: What it imports, but finds here.
    """
    tree, names = ast.parse(path.read_text()), {"configclass": configclass}
    for node in list(tree.body):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _is_of_a_peer(node):
            tree.body.remove(node)
            for one in node.names:
                word = one.name.rpartition(".")[2]
                names.setdefault(
                    one.asname or word, words.setdefault(word, _Named(word, (Word,), {}))
                )
    names |= known
    names["__name__"] = path.stem
    tree.body = [node for node in tree.body if not _gives_what_is_known(node, known)]
    exec(compile(tree, str(path), "exec"), names)
    return names


def fields_of(container: Any) -> Iterator[tuple[str, Any]]:
    """Yield the terms of a configuration by name, without removed ones."""
    named = container if isinstance(container, dict) else vars(container)
    return ((name, one) for name, one in named.items() if isinstance(one, Word))


def _is_of_a_peer(node: ast.Import | ast.ImportFrom) -> bool:
    modules = [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom):
        modules = [node.module or ""]
    return any(module.partition(".")[0] in PEERS for module in modules)


def _gives_what_is_known(node: ast.stmt, known: dict[str, Any]) -> bool:
    is_import = isinstance(node, (ast.Import, ast.ImportFrom))
    return is_import and any((one.asname or one.name) in known for one in node.names)
