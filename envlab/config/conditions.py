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


def check_conditions(holders: Mapping[str, object], given: Given) -> None:
    """Refuse settings that exclude each other, or lack what they require.

    Args:
        holders: Dataclasses by what stands before the names of their fields: ``--``, ``agent.``.
        given: Whether, and how, a setting was given.

    Raises:
        ConfigurationError: Naming both.
    """
    for prefix, holder in holders.items():
        cls: Any = type(holder)
        for name, conditions in declared(cls, Excludes | Requires).items():
            own = given(f"{prefix}{name}")
            if own is None:
                continue
            for condition in conditions:
                if isinstance(condition, Requires) and given(condition.other) is None:
                    other = condition.other.replace("=", " ")
                    raise ConfigurationError(
                        f"{own} has no effect without {other}. Add {other}, or leave {own} out."
                    )
                if isinstance(condition, Excludes):
                    _refuse_others(own, condition, given)


def _refuse_others(own: str, condition: Excludes, given: Given) -> None:
    for name in condition.others.split():
        if (other := given(name)) is not None:
            raise ConfigurationError(
                f"{own} and {other} exclude each other: {condition.why}. Leave one of them out."
            )
