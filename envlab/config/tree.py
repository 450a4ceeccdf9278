"""A configuration as a tree: the children of a node, and existing dotted paths."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from envlab.errors import ConfigurationError


def is_group(node: object) -> TypeGuard[Any]:
    """Return whether ``node`` is a dataclass instance, a group of settings with fixed names."""
    return dataclasses.is_dataclass(node) and not isinstance(node, type)


@functools.cache
def settable_fields(cls: type) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of a dataclass that its constructor takes, by name, in their order."""
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


@functools.cache
def field_types(cls: type) -> dict[str, Any]:
    """Return the evaluated annotations of a dataclass.

    Raises:
        ConfigurationError: An annotation names a type that does not exist at run time.
    """
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError) as error:
        raise ConfigurationError(
            f"The field types of {cls.__module__}:{cls.__qualname__} cannot be read: {error}. "
            "Import the type at the top of the module, outside TYPE_CHECKING."
        ) from error


def children(node: object) -> dict[str, object]:
    """Return the children of ``node``: its fields, keys, or list positions, by name."""
    cls: Any = type(node)
    if hasattr(cls, "__dataclass_fields__"):  # is_group(node), which is asked thousands of times
        return {name: getattr(node, name) for name in settable_fields(cls)}
    if isinstance(node, Mapping):
        return {str(key): value for key, value in node.items()}
    if isinstance(node, list | tuple):
        return {str(position): value for position, value in enumerate(node)}
    return {}


def paths(cfg: object, prefix: str) -> list[str]:
    """Return every valid dotted path at and below ``prefix``, groups before their contents."""
    return list(_walk(cfg, prefix))


def leaves(node: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the leaves below ``node`` with their dotted paths."""
    below = children(node)
    if not below:
        yield path, node
    for name, child in below.items():
        yield from leaves(child, f"{path}.{name}")


def _walk(node: object, path: str) -> Iterator[str]:
    yield path
    for name, child in children(node).items():
        yield from _walk(child, f"{path}.{name}")
