"""The sentences that say what a configuration expects."""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import enum
import reprlib
import types
import typing
from collections.abc import Iterable
from typing import Any, Literal, Union

from envlab.config.tree import is_group, paths, settable_fields
from envlab.errors import ConfigurationError, did_you_mean, nearest

_NAMES = {
    int: "a whole number (int)",
    float: "a number (float)",
    bool: "true or false (bool)",
    str: "text (str)",
    type(None): "null",
}
_EXAMPLES = {int: "1", float: "1.0", bool: "true", str: "text"}


def expected(hint: Any) -> str:
    """Return what an annotation asks for, in words."""
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
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
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
    """Return the error for a value that is not what its annotation asks for."""
    message = f"{path} must be {expected(hint)}, but is {shown(value)}."
    return ConfigurationError(f"{message} {_next_step(hint, path, value, current)}")


def unknown_key(
    path: str, name: str, siblings: Iterable[str], owner: object = None
) -> ConfigurationError:
    """Return the error for a key that is not in the group or dict at ``path``."""
    key = f"{path}.{name}"
    siblings = list(siblings)
    if is_derived(owner, name):
        return ConfigurationError(
            f"{key} is derived from other settings and cannot be set. "
            f"{instead_of_derived(owner, path, name)}"
        )
    near = _deeper(owner, path, name)
    near = near or [f"{path}.{one}" for one in nearest(name, siblings, count=1)]
    valid = f" Valid are{_listing(path, siblings)}" if siblings else ""
    hint = f" Did you mean {', '.join(near)}?" if near else valid
    return ConfigurationError(f"There is no {key!r}.{hint}")


def is_derived(owner: object, name: str) -> bool:
    """Tell whether ``name`` is a property, or a field without ``init``, of a config (class)."""
    cls = owner if isinstance(owner, type) else type(owner)
    fields = getattr(cls, "__dataclass_fields__", {})
    derived_field = name in fields and not fields[name].init
    return derived_field or isinstance(getattr(cls, name, None), property)


def instead_of_derived(owner: object, path: str, name: str) -> str:
    """Return what to set in place of a derived value.

    A config class may name it in a class attribute ``DERIVED_FROM``, a path below itself by each
    property's name; otherwise it is a deeper key of the same name, if there is one.
    """
    sources = getattr(owner, "DERIVED_FROM", {})
    if name in sources:
        return f"Set {path}.{sources[name]} instead."
    return f"Set {' or '.join(_deeper(owner, path, name)) or 'those'} instead."


def suggestion(path: str, candidates: Iterable[str]) -> str:
    """Return ``" Did you mean x?"`` for the nearest full path, or ``""``.

    Whoever writes ``agent.learning_rate`` knows the name and not where it lies: paths that end in
    the same name go before those that merely look alike.
    """
    candidates = list(candidates)
    near = nearest(path, candidates, count=1)
    same = _of_same_name(path, candidates)
    if same and not (near and near[0].rpartition(".")[2] == path.rpartition(".")[2]):
        return f" Did you mean {', '.join(same)}?"
    return did_you_mean(path, candidates, count=1)


def _deeper(owner: object, path: str, name: str) -> list[str]:
    """Return paths below a config (an instance, at ``path``) that end in a name."""
    below = [] if isinstance(owner, type) else paths(owner, path)[1:]
    return _of_same_name(f"{path}.{name}", below)


def _of_same_name(path: str, candidates: Iterable[str]) -> list[str]:
    """Return up to three paths below the same root that end in the same name, nearest first."""
    root, name = path.partition(".")[0], path.rpartition(".")[2]
    if name.isdigit():  # a position in a list
        return []
    same = [one for one in candidates if one.startswith(f"{root}.") and one.endswith(f".{name}")]
    return difflib.get_close_matches(path, same, n=3, cutoff=0.0)


def _next_step(hint: Any, path: str, value: object, current: object) -> str:
    if is_group(current) or dataclasses.is_dataclass(hint):
        cls = type(current) if is_group(current) else typing.cast(type, hint)
        return f"Set what is in it:{_listing(path, settable_fields(cls))}"
    if _takes_text(hint) and isinstance(value, bool | int | float):
        return f"Quote it if it is text: \"{path}='{value}'\"."
    if isinstance(current, bool | int | float | str):
        return f"Its value before is {shown(current)}."
    members = [m for m in (typing.get_args(hint) if _is_union(hint) else (hint,)) if m in _EXAMPLES]
    return f"Write, for example, {path}={_EXAMPLES[members[0]]}." if members else f"Correct {path}."


def _takes_text(hint: Any) -> bool:
    return hint is str or (_is_union(hint) and str in typing.get_args(hint))


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (Union, types.UnionType)


def _listing(path: str, names: Iterable[str]) -> str:
    listed = [f"{path}.{name}" for name in names]
    return f" {', '.join(listed[:8])}{', ...' if len(listed) > 8 else '.'}" if listed else ""


def _name(hint: Any) -> str:
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "").replace("collections.abc.", "")
