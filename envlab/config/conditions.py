"""What a setting excludes and requires, declared at the field of a flag or configuration.

For example::

    overlap: Annotated[bool, Excludes("--video --viz", "they show each step")] = False
    viz_port: Annotated[int | None, Range(above=0), Requires("--viz=web")] = flag(...)

A setting is a flag (``--video``), or the path of a configuration's value (``agent.overlap``). It
is given if it is not at its default; ``--viz=web``: if it has this value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envlab.config.ranges import declared
from envlab.config.tree import children, is_group
from envlab.errors import ConfigurationError

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
                _check(f"{prefix}{name}", condition, given, place)
        for name, child in children(holder).items():
            if is_group(child):
                check_conditions({f"{prefix}{name}.": child}, given, place)


def _check(
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
