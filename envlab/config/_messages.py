"""Error messages about the expected contents of a configuration."""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import enum
import reprlib
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Union

from envlab.config.encoding import is_group, settable_fields
from envlab.errors import ConfigurationError, nearest

_NAMES = {
    int: "a whole number (int)",
    float: "a number (float)",
    bool: "true or false (bool)",
    str: "text (str)",
    type(None): "null",
}


def expected(hint: Any) -> str:
    """Return the values that an annotation expects, in words."""
    origin = typing.get_origin(hint) or hint
    arguments = typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(expected(member) for member in arguments)
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin in _NAMES:
        return _NAMES[origin]
    if origin is tuple and arguments and Ellipsis not in arguments:
        return f"a list of {len(arguments)} values ({hint})"
    if origin in (list, tuple, collections.abc.Sequence):
        return f"a list ({_name(hint)})"
    if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        return f"a group of keys and values ({_name(hint)})"
    if origin is collections.abc.Callable:
        return "a function or class as module:name"
    if origin is type:
        return "a class as module:name"
    if isinstance(origin, enum.EnumType):
        return f"one of {', '.join(origin.__members__)}"
    if dataclasses.is_dataclass(origin):
        return f"a group of settings ({_name(origin)})"
    return _name(hint)


def shown(value: object) -> str:
    """Return a value with its type, shortened, as it appears in an error."""
    if value is None:
        return "null"
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def wrong_type(hint: Any, path: str, value: object, current: object = None) -> ConfigurationError:
    """Return the error for a value that does not fit its annotation."""
    next_step = f"Correct {path}."
    if is_group(current) or dataclasses.is_dataclass(hint):
        cls = type(current) if is_group(current) else typing.cast(type, hint)
        fields = [f"{path}.{name}" for name in settable_fields(cls)]
        next_step = f"Set what is in it: {_listing(fields)}"
    elif str in (hint, *typing.get_args(hint)) and isinstance(value, bool | int | float):
        next_step = f"Quote it if it is text: \"{path}='{value}'\"."
    elif isinstance(current, bool | int | float | str):
        next_step = f"It is {shown(current)} by default."
    return ConfigurationError(
        f"{path} must be {expected(hint)}, but is {shown(value)}. {next_step}"
    )


def unknown_key(
    key: str, holder: str, owner: object, candidates: Sequence[str]
) -> ConfigurationError:
    """Return the error for a key that does not exist, with the nearest ones.

    Args:
        key: Its dotted path.
        holder: The part of it that does exist; ``""`` if none does.
        owner: The object at that part: a config, its class, or a dict.
        candidates: Existing paths to suggest.
    """
    name = key.removeprefix(f"{holder}.").partition(".")[0]
    elsewhere = _of_same_name(key, candidates)
    if is_derived(owner, name):
        # A config class may name the settings to change, by property, in DERIVED_FROM.
        source = getattr(owner, "DERIVED_FROM", {}).get(name)
        instead = f"{holder}.{source}" if source else " or ".join(elsewhere) or "those"
        return ConfigurationError(
            f"{key} is derived from other settings and cannot be set. Set {instead} instead."
        )
    siblings = [candidate for candidate in candidates if candidate.rpartition(".")[0] == holder]
    spelled_alike = nearest(name, [sibling.rpartition(".")[2] for sibling in siblings], count=1)
    near = elsewhere or [f"{holder}.{one}".removeprefix(".") for one in spelled_alike]
    hint = f" Valid are {_listing(siblings)}" if siblings else ""
    if near:
        hint = f" Did you mean {', '.join(near)}?"
    return ConfigurationError(f"There is no {key!r}.{hint}")


def is_derived(owner: object, name: str) -> bool:
    """Return whether ``name`` is a property of a config (class), or a field without ``init``."""
    cls = owner if isinstance(owner, type) else type(owner)
    fields = getattr(cls, "__dataclass_fields__", {})
    is_fixed_field = name in fields and not fields[name].init
    return is_fixed_field or isinstance(getattr(cls, name, None), property)


def _of_same_name(key: str, candidates: Iterable[str]) -> list[str]:
    """Return up to three paths below the same root that end in the same name, nearest first.

    A user who writes ``agent.learning_rate`` knows the name but not the path, and one who writes
    ``rewards.alive.weight`` has left out the root.
    """
    root, name = key.partition(".")[0], key.rpartition(".")[2]
    if name.isdigit():  # a position in a list
        return []
    if whole := [one for one in candidates if one.partition(".")[2] == key]:
        return whole
    same = [
        candidate
        for candidate in candidates
        if candidate.startswith(f"{root}.") and candidate.endswith(f".{name}")
    ]
    # One that differs only by a typing error is the intended one.
    typos = difflib.get_close_matches(key, same, n=1, cutoff=0.9)
    return typos or difflib.get_close_matches(key, same, n=3, cutoff=0.0)


def _listing(keys: Sequence[str]) -> str:
    return f"{', '.join(keys[:8])}{', ...' if len(keys) > 8 else '.'}"


def _name(hint: Any) -> str:
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "").replace("collections.abc.", "")
