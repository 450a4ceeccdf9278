"""What a setting may be, excludes and requires, declared at its field and checked when composed.

A field's annotation has its range, which type checkers and :mod:`envlab.config.decoding` ignore; if
a subclass redeclares the field, the range stays::

    gamma: UnitInterval = 0.99
    layers: list[Annotated[int, Range(above=0, also=-1)]]

A ``Literal`` is also checked, because Python lets a task's file set any value.

Values in a free-form dict have no annotation; a dataclass above it names their ranges by dotted
path in a class attribute ``RANGES``. A dataclass checks conditions that are not ranges, such as
that one value must exceed another, in a method ``check_values(path)``.

The annotation also has the settings that a setting excludes and requires::

    overlap: Annotated[bool, Excludes("--video --viz", "they show each step")] = False
    viz_port: Annotated[int | None, Range(above=0), Requires("--viz=web")] = flag(...)

A setting is a flag (``--video``), or the path of a configuration's value (``agent.overlap``). It
is given if it is not at its default; ``--viz=web``: if it has this value.
"""

from __future__ import annotations

import functools
import itertools
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

from envlab.config.encoding import children, is_group
from envlab.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Range:
    """Allowed numbers of a setting; a bound of None does not exist.

    In a list or a dict, it applies to every number. Null and text, if the type allows them, are not
    checked.
    """

    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    """With infinity here, a number must be finite."""
    at_most: float | None = None
    also: float | None = None
    """A number outside of the bounds with a special meaning, such as -1 for "all"."""

    def holds(self, value: float) -> bool:
        """Return whether a setting may be ``value``."""
        return value == self.also or (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            text = f"from {self.at_least:g} to {self.at_most:g}"
        else:
            bounds = {
                "greater than": self.above,
                "at least": self.at_least,
                "at most": self.at_most,
                "less than": None if self.below == math.inf else self.below,
            }
            words = [f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None]
            words += ["finite"] if self.below == math.inf else []
            text = " and ".join(words)
        return text if self.also is None else f"{text}, or {self.also:g}"


@dataclass(frozen=True)
class NotEmpty:
    """A list or dict must have an element."""


PositiveInt = Annotated[int, Range(above=0)]
NonNegativeInt = Annotated[int, Range(at_least=0)]
PositiveFloat = Annotated[float, Range(above=0, below=math.inf)]
NonNegativeFloat = Annotated[float, Range(at_least=0, below=math.inf)]
LayerSize = Annotated[int, Range(above=0, at_most=2**15)]
"""Units of a layer: two of the largest have a matrix of 4 GB between them."""
UnitInterval = Annotated[float, Range(at_least=0, at_most=1)]


def check_ranges(cfg: object, path: str = "") -> None:
    """Refuse a configuration with a value outside of its declared range or choices.

    Args:
        cfg: A dataclass, dict or list; everything below it is checked too.
        path: Its dotted name, for the error; "": ``cfg`` is a dict of configurations by name.

    Raises:
        ConfigurationError: Naming the key, its value, and the range or the choices.
    """
    cls: Any = type(cfg)
    is_typed = is_group(cfg)
    ranges = declared(cls, Range) if is_typed else {}
    filled = declared(cls, NotEmpty) if is_typed else {}
    choices = _choices_of_fields(cls) if is_typed else {}
    for name, child in children(cfg).items():
        below = f"{path}.{name}".removeprefix(".")
        if name in choices and (type(child), child) not in choices[name]:
            texts = ", ".join(repr(choice) for _, choice in choices[name])
            raise ConfigurationError(
                f"{below} is {child!r}, but must be one of {texts}. Correct {below}."
            )
        for allowed in ranges.get(name, ()):
            _check(child, allowed, below)
        if name in filled and child is not None and not children(child):
            raise ConfigurationError(
                f"{below} is {child!r}, but must have at least one element. Correct {below}."
            )
        if not isinstance(child, str | bool | int | float | None):
            check_ranges(child, below)
    if is_typed:
        for key, allowed in getattr(cfg, "RANGES", {}).items():
            value = functools.reduce(_child, key.split("."), cfg)
            _check(value, allowed, f"{path}.{key}")
        if hasattr(cfg, "check_values"):
            cfg.check_values(path)


def check_range(cls: type, name: str, value: object, path: str) -> None:
    """Refuse a value outside of the range that a class declares for a field.

    Raises:
        ConfigurationError: Naming the value by ``path``, and the range.
    """
    for allowed in declared(cls, Range).get(name, ()):
        _check(value, allowed, path)


def _child(node: object, name: str) -> object:
    return children(node).get(name)


def _check(value: object, allowed: Range, path: str) -> None:
    for key, number in _numbers(value, path):
        if not allowed.holds(number):
            raise ConfigurationError(f"{key} is {number!r}, but must be {allowed}. Correct {key}.")


def _numbers(value: object, path: str) -> Iterator[tuple[str, float]]:
    """Yield all numbers of a setting with their paths."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
    elif isinstance(value, Mapping | list | tuple):
        for name, child in children(value).items():
            yield from _numbers(child, f"{path}.{name}")


@functools.cache
def declared(cls: type, kind: Any) -> dict[str, tuple[Any, ...]]:
    """Return the declarations of a kind in a class's annotations, by field.

    A field that a subclass redeclares without any keeps those that it had.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for base in reversed(cls.__mro__):
        try:
            hints = typing.get_type_hints(base, include_extras=True)
        except (NameError, TypeError):
            # A class made by dataclasses.make_dataclass declares none.
            hints = {}
        for name in vars(base).get("__annotations__", ()):
            hint = hints.get(name)
            if typing.get_args(hint) and (inside := tuple(_declared_in(hint, kind))):
                found[name] = inside
    return found


@functools.cache
def _choices_of_fields(cls: type) -> dict[str, list[tuple[type, Any]]]:
    """Return the choices by field, after their types (1, 1.0 and True differ).

    There are some where an annotation is a ``Literal``, or one with None.
    """
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, TypeError):
        return {}
    found = {name: _choices_in(hint) for name, hint in hints.items() if typing.get_args(hint)}
    return {
        name: [(type(choice), choice) for choice in choices]
        for name, choices in found.items()
        if choices
    }


def _choices_in(hint: Any) -> tuple[Any, ...]:
    """Return the choices of an annotation; none if it also allows other values."""
    if hint is type(None):
        return (None,)
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = list(map(_choices_in, typing.get_args(hint)))
        return tuple(itertools.chain(*members)) if all(members) else ()
    return ()


def _declared_in(hint: Any, kind: Any) -> Iterator[Any]:
    """Yield the declarations in an annotation, including a union's members and list elements'."""
    for one in getattr(hint, "__metadata__", ()):
        if isinstance(one, kind):
            yield one
    for argument in filter(typing.get_args, typing.get_args(hint)):
        yield from _declared_in(argument, kind)


Given = Callable[[str], str | None]
"""Returns how a setting was given, such as ``--viz web``; None if it was not."""


@dataclass(frozen=True)
class Excludes:
    """Other settings with which the field's has no effect."""

    others: str
    """They, with spaces between."""
    why: str
    """The reason, after a colon."""


@dataclass(frozen=True)
class Requires:
    """Another setting without which the field's has no effect."""

    other: str


def check_conditions(
    holders: Mapping[str, object], given: Given, place: Callable[[str], str] = lambda _: ""
) -> None:
    """Refuse settings that exclude each other, or lack what they require.

    Args:
        holders: Dataclasses by what stands before the names of their fields: ``--``, ``agent.``.
        given: Whether, and how, a setting was given.
        place: Returns where a setting that was given stands, such as `` (a.yaml, line 3)``.

    Raises:
        ConfigurationError: Naming both.
    """
    for prefix, holder in holders.items():
        cls: Any = type(holder)
        for name, conditions in declared(cls, Excludes | Requires).items():
            for condition in conditions if given(f"{prefix}{name}") else ():
                _check_condition(f"{prefix}{name}", condition, given, place)
        for name, child in children(holder).items():
            if is_group(child):
                check_conditions({f"{prefix}{name}.": child}, given, place)


def _check_condition(
    own: str, condition: Excludes | Requires, given: Given, place: Callable[[str], str]
) -> None:
    if isinstance(condition, Excludes):
        for other in condition.others.split():
            if given(other) is not None:
                both = [f"{given(one)}{place(one)}" for one in (own, other)]
                raise ConfigurationError(
                    f"{both[0]} and {both[1]} exclude each other: {condition.why}. Leave one of "
                    "them out."
                )
    elif given(condition.other) is None:
        other, text = condition.other, f"{given(own)}{place(own)}"
        other = other.replace("=", " ") if other.startswith("--") else other
        raise ConfigurationError(
            f"{text} has no effect without {other}. Add {other}, or leave {given(own)} out."
        )
