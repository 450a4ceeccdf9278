"""Configs as trees with dotted paths, and as plain values: dictionaries, lists, text, numbers."""

from __future__ import annotations

import dataclasses
import enum
import functools
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from envlab.config.references import reference_of
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


_PLAIN = (bool, int, float, str, type(None))


def to_dict(cfg: object, path: str = "env") -> dict[str, Any]:
    """Return a config as plain data for YAML; ``path`` is its name in errors.

    Raises:
        ConfigurationError: ``cfg`` is neither a dataclass nor a dict, or it contains something that
            has no plain form, such as a lambda or a tensor.
    """
    if not is_group(cfg) and not isinstance(cfg, Mapping):
        raise ConfigurationError(
            f"{path} must be a dataclass instance or a dict, but is {cfg!r}. "
            "Give an instance of the config class."
        )
    encoded: dict[str, Any] = encode(cfg, path)
    return encoded


def encode(value: object, path: str) -> Any:
    """Return ``value`` as plain data; ``path`` is its dotted name, for errors.

    Dataclasses become dictionaries, tuples become lists, enum members become their names, functions
    and classes become ``module:name``.

    Raises:
        ConfigurationError: Something below ``path`` has no plain form.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    for scalar in (int, float, str):
        if isinstance(value, scalar):
            # NumPy's float64 and others derive from these; YAML would refuse a derived type.
            return value if type(value) is scalar else scalar(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ConfigurationError(
                    f"{path} has the key {key!r} ({type(key).__name__}), but the keys of a "
                    "configuration are text. Write it as a string."
                )
    if is_group(value) or isinstance(value, Mapping | list | tuple):
        encoded = {}
        for name, child in children(value).items():
            if type(child) in _PLAIN:
                encoded[name] = child
            elif child is not dataclasses.MISSING:  # Isaac Lab's mark of a field without a value
                encoded[name] = encode(child, f"{path}.{name}")
        return list(encoded.values()) if isinstance(value, list | tuple) else encoded
    if callable(value):
        try:
            return reference_of(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from None
    raise ConfigurationError(
        f"{path} holds {value!r} ({type(value).__name__}), which a configuration cannot hold. Use "
        "numbers, text, true/false, None, lists, dicts, dataclasses, enums, functions or classes."
    )


def same(left: object, right: object) -> bool:
    """Return whether two plain values are equal in value and type (1, 1.0 and True all differ)."""
    if isinstance(left, dict) and isinstance(right, dict):
        is_alike = left.keys() == right.keys()
        return is_alike and all(map(same, left.values(), map(right.get, left)))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))
