"""Strict conversion of plain values to typed ones, by dataclasses' annotations and values.

A value is decoded into a :class:`Slot`: its annotation, its dotted path and its present value. The
present value decides if the annotation leaves a choice, so that a subclass stays that subclass and
a tuple in an untyped dict stays a tuple. No validation library uses a present value, which is why
this is not pydantic or cattrs.
"""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import enum
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union

from envlab.config._messages import expected, shown, unknown_key, wrong_type
from envlab.config.encoding import (
    children,
    encode,
    field_types,
    is_group,
    paths,
    same,
    settable_fields,
)
from envlab.config.references import Trust, resolve
from envlab.errors import ConfigurationError, did_you_mean

Config = TypeVar("Config")

ABSENT: Any = object()
"""Content of an empty slot; ``None`` is a value."""

_LISTS = (list, tuple, collections.abc.Sequence)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def from_dict(
    cls: type[Config], values: Mapping[str, Any], path: str = "env", *, trust: Trust | None = None
) -> Config:
    """Return a new ``cls`` with ``values`` over its defaults, typed by its annotations.

    Free-form dicts take exactly the given keys; for ``trust``, see :func:`merge`.

    Raises:
        ConfigurationError: A key is unknown, a required key is missing, or a value has another type
            than its field; the text names the path and the nearest valid key.
    """
    instance: Config = decode(Slot(cls, path, given_keys=True, trust=trust), values)
    return instance


def merge(
    cfg: Config,
    values: Mapping[str, Any],
    path: str = "env",
    *,
    given_keys: bool = False,
    trust: Trust | None = None,
) -> Config:
    """Return a new config equal to ``cfg`` with the possibly partial ``values`` over it.

    Groups keep their class in ``cfg``, even if the annotation names only a base class.

    Args:
        cfg: A dataclass, or a dict, whose values then keep their types. It is not changed.
        values: Plain data, nested like ``cfg``.
        path: The dotted name of ``cfg``, for errors.
        given_keys: ``values`` is a whole config: free-form dicts take exactly its keys. By default
            they keep their own keys, and a new key is an error.
        trust: Allowed targets of references in ``values`` from a file; None: anything, because
            the program or the user wrote them.

    Raises:
        ConfigurationError: A key is unknown, a value has another type than its field, or a
            reference leads to something untrusted.
    """
    hint = type(cfg) if is_group(cfg) else dict[str, Any]
    # A copy, so that the two share nothing, and a __post_init__ does not change the old one.
    merged: Config = decode(Slot(hint, path, copy.deepcopy(cfg), given_keys, trust), values)
    return merged


@dataclasses.dataclass(frozen=True)
class Slot:
    """A place in a config that takes a value."""

    hint: Any
    """Annotation."""
    path: str
    """Dotted path, for errors."""
    current: Any = ABSENT
    """Its present value."""
    given_keys: bool = False
    """Whether free-form dicts take exactly the given keys instead of keeping their own."""
    trust: Trust | None = None
    """Allowed targets of references; None: anything."""
    untyped: bool = False
    """Whether this is a value of a free-form dict, which must keep its type."""

    def below(self, name: str | int, hint: Any, current: Any, untyped: bool = False) -> Slot:
        """Return the slot of one field, key or position."""
        path = f"{self.path}.{name}"
        return Slot(hint, path, current, self.given_keys, self.trust, untyped)

    def retyped(self, hint: Any) -> Slot:
        """Return this slot with another annotation."""
        return dataclasses.replace(self, hint=hint, untyped=False)

    def wrong(self, value: object) -> ConfigurationError:
        """Return the error for a value of another type."""
        current = None if self.current is ABSENT else self.current
        return wrong_type(self.hint, self.path, value, current)

    def unknown(self, name: object, owner: object, names: Mapping[str, Any]) -> ConfigurationError:
        """Return the error for a key that ``owner`` (a config, a dict or a class) does not have."""
        known = [f"{self.path}.{key}" for key in names]
        if not isinstance(owner, type):
            known = paths(owner, self.path)[1:]
        return unknown_key(f"{self.path}.{name}", self.path, owner, known)


def decode(slot: Slot, value: Any) -> Any:
    """Return ``value`` converted for the slot's annotation and present value.

    A value equal to the present one returns the present object, whatever the annotation.
    """
    current = slot.current
    if is_group(current) and isinstance(value, Mapping):
        return _decode_group(slot, type(current), value)
    if current is not ABSENT and same(encode(current, slot.path), value):
        return current
    if value is None:
        return _decode_null(slot)
    origin = typing.get_origin(slot.hint) or slot.hint
    if origin in (Any, object) or isinstance(origin, TypeVar):
        return _decode_any(slot, value)
    if origin in (Union, types.UnionType):
        return _decode_union(slot, value)
    if origin is Literal:
        return _decode_literal(slot, value)
    if origin in (int, float, bool, str):
        return _decode_scalar(slot, value)
    if origin in _LISTS:
        return _decode_list(slot, value)
    if origin in _DICTS:
        return _decode_dict(slot, value)
    if origin is collections.abc.Callable or origin is type:
        return _decode_reference(slot, value)
    if dataclasses.is_dataclass(origin) and isinstance(value, Mapping):
        return _decode_group(slot, typing.cast(type, origin), value)
    if isinstance(origin, enum.EnumType) and isinstance(value, str) and value in origin.__members__:
        return origin[value]
    if isinstance(origin, type) and isinstance(value, origin):
        return value
    raise slot.wrong(value)


def _decode_group(slot: Slot, cls: type, values: Mapping[str, Any]) -> Any:
    """Return the present dataclass, or a new ``cls``, with ``values`` over it."""
    current = slot.current if is_group(slot.current) else None
    fields, hints = settable_fields(cls), field_types(cls)
    for name in values:
        if name not in fields:
            raise slot.unknown(name, current or cls, fields)
    if current is None:
        before = {name: _default_of(field) for name, field in fields.items()}
        missing = [name for name in fields if name not in values and before[name] is ABSENT]
        if missing:
            raise ConfigurationError(
                f"{slot.path}.{missing[0]} is missing: {cls.__name__} has no default for it. "
                f"Give {expected(hints[missing[0]])}."
            )
    else:
        before = children(current)
    given = {}
    for name, value in values.items():
        given[name] = decode(slot.below(name, hints[name], before[name]), value)
    if current is None:
        return _checked(lambda: cls(**given), given, slot.path)
    changed = {name: value for name, value in given.items() if value is not before[name]}
    if not changed:
        return current
    return _checked(lambda: dataclasses.replace(current, **changed), changed, slot.path)


def _checked(make: Callable[[], Any], given: Mapping[str, Any], path: str) -> Any:
    """Return the result of ``make``, after checking that its ``__post_init__`` keeps ``given``."""
    # Encoded first, because a __post_init__ may change the given objects themselves.
    wanted = {}
    for name, value in given.items():
        wanted[name] = encode(value, f"{path}.{name}")
    group = make()
    for name, value in wanted.items():
        actual = encode(getattr(group, name), f"{path}.{name}")
        if not same(actual, value):
            raise ConfigurationError(
                f"{path}.{name} has no effect when it is set to {shown(value)}: __post_init__ of "
                f"{type(group).__name__} makes it {shown(actual)}. Make one of them a property."
            )
    return group


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return ABSENT if field.default is dataclasses.MISSING else field.default


def _decode_null(slot: Slot) -> None:
    """Accept ``null`` if the annotation allows it, or in place of a removable term."""
    for member in (*_members(slot.hint), type(slot.current)):
        is_removable = getattr(typing.get_origin(member) or member, "__removable__", False)
        if member in (Any, object, None, type(None)) or is_removable:
            return
    raise slot.wrong(None)


def _members(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _decode_any(slot: Slot, value: Any) -> Any:
    """Follow the present value: strictly in a free-form dict, if it fits under ``Any``."""
    hint = Any if slot.current is ABSENT else _hint_of(slot.current)
    if hint is Any:
        return value
    # A whole config has its own free-form lists, such as a network's layers, and its own keys.
    is_own_list = slot.given_keys and isinstance(slot.current, list)
    is_strict = slot.untyped and not is_own_list
    try:
        return decode(slot.retyped(hint), value)
    except ConfigurationError:
        if is_strict or is_group(slot.current) or isinstance(slot.current, Mapping):
            raise
        return value


def _hint_of(value: Any) -> Any:
    """Return the annotation that describes a value in a place without one."""
    if isinstance(value, bool | int | float | str | enum.Enum) or is_group(value):
        return type(value)
    if isinstance(value, list | tuple):
        kinds = {_hint_of(element) for element in value}
        # [1, 0.5] is a list of numbers, not of anything.
        element = float if kinds == {int, float} else kinds.pop() if len(kinds) == 1 else Any
        return list[element] if isinstance(value, list) else tuple[element, ...]  # type: ignore
    if isinstance(value, Mapping):
        return dict[str, Any]
    return Callable if callable(value) else Any


def _decode_union(slot: Slot, value: Any) -> Any:
    """Take the member that ``value`` already is, else the first that accepts it."""
    members = [member for member in _members(slot.hint) if member is not type(None)]
    if len(members) == 1:
        return decode(slot.retyped(members[0]), value)
    for member in sorted(members, key=lambda member: type(value) is not member):
        try:
            return decode(slot.retyped(member), value)
        except ConfigurationError:
            continue
    if isinstance(value, Mapping) and all(map(dataclasses.is_dataclass, members)):
        # The best error is that of the most similar class.
        decode(slot.retyped(max(members, key=lambda member: _likeness(member, value))), value)
    raise slot.wrong(value)


def _likeness(cls: type, values: Mapping[str, Any]) -> int:
    """Return how many keys of ``values`` a dataclass has; those with its default count twice."""
    fields = settable_fields(cls)
    return sum(1 + same(_default_of(fields[key]), values[key]) for key in values if key in fields)


def _decode_literal(slot: Slot, value: Any) -> Any:
    choices = typing.get_args(slot.hint)
    for choice in choices:
        if same(choice, value):
            return choice
    raise ConfigurationError(
        f"{slot.path} must be {expected(slot.hint)}, but is {shown(value)}."
        f"{did_you_mean(str(value), map(str, choices))}"
    )


def _decode_scalar(slot: Slot, value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isnan(value):
        raise ConfigurationError(f"{slot.path} is nan, but must be a number. Correct {slot.path}.")
    if slot.hint is float and number:
        return float(value)
    if not isinstance(value, slot.hint) or (isinstance(value, bool) and slot.hint is not bool):
        raise slot.wrong(value)
    return value


def _decode_list(slot: Slot, value: Any) -> Any:
    """Decode every element; the tuple or list type decides the type of the result."""
    if not isinstance(value, list | tuple):
        raise slot.wrong(value)
    origin, arguments = typing.get_origin(slot.hint) or slot.hint, typing.get_args(slot.hint)
    fixed = origin is tuple and bool(arguments) and Ellipsis not in arguments
    if fixed and len(arguments) != len(value):
        raise ConfigurationError(
            f"{slot.path} must be {expected(slot.hint)}, but has {len(value)}: {shown(value)}. "
            f"Give exactly {len(arguments)}."
        )
    hints = arguments if fixed else [arguments[0] if arguments else Any] * len(value)
    before = list(slot.current) if isinstance(slot.current, list | tuple) else []
    before += [ABSENT] * (len(value) - len(before))
    elements = []
    for position, (hint, old, element) in enumerate(zip(hints, before, value, strict=False)):
        elements.append(decode(slot.below(position, hint, old), element))
    as_tuple = origin is tuple or (origin is not list and not isinstance(slot.current, list))
    return tuple(elements) if as_tuple else elements


def _decode_dict(slot: Slot, value: Any) -> dict[str, Any]:
    """Decode every value; present values keep their types if the annotation names none."""
    if not isinstance(value, Mapping):
        raise slot.wrong(value)
    arguments = typing.get_args(slot.hint)
    hint = arguments[1] if arguments else Any
    current = slot.current if isinstance(slot.current, Mapping) else None
    before = current or {}
    for key in value:
        if not isinstance(key, str):
            raise ConfigurationError(
                f"{slot.path} has the key {shown(key)}, but keys are text. Write it in quotes."
            )
        if current is not None and key not in current and not slot.given_keys:
            raise slot.unknown(key, current, current)
    decoded = {
        key: decode(slot.below(key, hint, before.get(key, ABSENT), untyped=True), given)
        for key, given in value.items()
    }
    return decoded if slot.given_keys else {**before, **decoded}


def _decode_reference(slot: Slot, value: Any) -> Any:
    """Return the function or class that ``module:name`` names."""
    try:
        target = value
        if isinstance(value, str):
            target = resolve(value) if slot.trust is None else slot.trust.resolve(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{slot.path}: {error}") from None
    fits = callable(target)
    if (typing.get_origin(slot.hint) or slot.hint) is type:
        bounds = tuple(one for one in typing.get_args(slot.hint) if isinstance(one, type))
        fits = isinstance(target, type) and issubclass(target, bounds or object)
    if not fits:
        raise slot.wrong(value)
    encode(target, slot.path)  # refuses objects that could not be encoded again
    return target
