"""A configuration of Isaac Lab's as one of envlab's, and what was changed in it back again.

A ``configclass`` cannot be composed itself: ``dataclasses.replace`` runs its ``__post_init__``,
which sets again what an override has changed. So its values become groups of the same names and
types, and those that differ in the end are written into a new object of the task's own.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any

from envlab.config.encoding import children, encode, same
from envlab.config.references import reference_of
from envlab.errors import ConfigurationError
from envlab.registry import load_entry_point

_SCALARS = (bool, int, float, str)
_KEPT = (*_SCALARS, enum.Enum)
_MISSING = type(dataclasses.MISSING)
"""Marks a field without a value; it is null here. Copies of it are other objects."""


class Group:
    """A group of settings, of a dataclass that :func:`_group_class` makes."""

    def __reduce__(self) -> Any:  # ranks send each other configurations
        hints = tuple((field.name, field.type) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return _group, (type(self).__name__, hints, dict(vars(self)))


def new_from(entry_point: Any) -> Any:
    """Return a new configuration of those that a registration names.

    Args:
        entry_point: A class or a function, which is called, or an object, which is copied; or
            ``module:name`` of one.
    """
    found = load_entry_point(entry_point)
    return found() if callable(found) else copy.deepcopy(found)


def settings_of(cfg: Any, **more: Any) -> Any:
    """Return the settings of a configuration object, as a dataclass of plain values.

    Terms and other optional parts may be null, as in Isaac Lab. What no file can hold, such as a
    lambda or a slice, is a text, which only the task's own code can change.

    Args:
        cfg: An object of a ``configclass``.
        more: Further settings.
    """
    values = {
        name: _plain(value) for name, value in vars(cfg).items() if not name.startswith("__")
    } | more
    cls: Any = type(cfg)
    said = _annotations(cls)
    hints = tuple((name, _hint(value, said.get(name))) for name, value in values.items())
    return _group(cls.__name__, hints, values)


def apply(cfg: Any, settings: Any, path: str = "env") -> None:
    """Write those settings into a configuration object that differ from its own.

    Args:
        cfg: The object, which is changed.
        settings: What became of :func:`settings_of` of another of its class.
        path: Its name, for errors.

    Raises:
        ConfigurationError: If one of them is a text that stands for an object.
    """
    is_free = isinstance(cfg, dict)
    own = cfg if is_free else vars(cfg)
    value: Any
    for name, value in children(settings).items():
        if name not in own:
            if is_free:
                own[name] = value
            continue
        below = f"{path}.{name}"
        plain = _plain(own[name])
        if _same(plain, value, below):
            continue
        if _is_holder(own[name]) and isinstance(value, Group | Mapping):
            apply(own[name], value, below)
        elif isinstance(own[name], list | tuple) and any(map(_is_holder, own[name])):
            _apply_to_list(own, name, value, below)
        elif type(plain) is str and not isinstance(own[name], str):
            raise ConfigurationError(
                f"{below} is set to {value!r}, but is {plain} in the task's code, which a "
                "configuration cannot hold. Change it there."
            )
        else:
            is_tuple = isinstance(own[name], tuple) and value is not None
            own[name] = tuple(value) if is_tuple else copy.deepcopy(value)
    if is_free:
        for name in own.keys() - children(settings).keys():
            del own[name]


def _apply_to_list(own: Any, name: str, values: Any, path: str) -> None:
    """Change parts of a list of configurations, which keeps its length."""
    held = own[name]
    if not isinstance(values, list | tuple) or len(values) != len(held):
        raise ConfigurationError(
            f"{path} is a list of {len(held)} configurations, whose parts can be set, such as "
            f"{path}.0, but not the list."
        )
    for place, (one, value) in enumerate(zip(held, values, strict=True)):
        if _is_holder(one):
            apply(one, value, f"{path}.{place}")


def _same(plain: Any, value: Any, path: str) -> bool:
    return same(encode(plain, path), encode(value, path))


def _is_holder(value: Any) -> bool:
    """Return whether a value has settings of its own."""
    is_group = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_group or (isinstance(value, dict) and _has_names(value))


def _has_names(values: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) for key in values)


def _plain(value: Any) -> Any:
    """Return a value as a configuration of envlab's holds it."""
    if isinstance(value, _MISSING):
        return None
    if value is None or isinstance(value, _KEPT):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return settings_of(value)
    if isinstance(value, dict) and _has_names(value):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    if callable(value):
        try:
            reference_of(value)
        except ConfigurationError:
            return f"{value.__module__}:{getattr(value, '__qualname__', type(value).__name__)}"
        return value
    if isinstance(value, slice):
        return f"slice({value.start},{value.stop},{value.step})"
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _hint(value: Any, said: Any) -> Any:
    """Return the annotation of a setting: its value's type, or null; ``said``: the class's own."""
    if type(value) is int and said in (float, "float"):
        return float | None
    if type(value) in _SCALARS or isinstance(value, enum.Enum):
        return type(value) | None
    if isinstance(value, list | tuple):
        return type(value) | None
    if callable(value):
        return Callable[..., Any] | None  # type: ignore[operator]
    return Any


@functools.cache
def _annotations(cls: type) -> dict[str, Any]:
    return {
        name: hint
        for base in reversed(cls.__mro__)
        for name, hint in vars(base).get("__annotations__", {}).items()
    }


def _group(name: str, hints: tuple[tuple[str, Any], ...], values: Mapping[str, Any]) -> Any:
    return _group_class(name, hints)(**values)


@functools.cache
def _group_class(name: str, hints: tuple[tuple[str, Any], ...]) -> type:
    return dataclasses.make_dataclass(name, hints, bases=(Group,), kw_only=True, eq=False)
