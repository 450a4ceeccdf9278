"""The base of all terms: they are fields of a dataclass, and can be removed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from envlab.errors import ConfigurationError

T = TypeVar("T")


@dataclass(kw_only=True)
class TermCfg:
    """A part of an environment; an override may remove it (``env.events.push=null``)."""

    __removable__: ClassVar[bool] = True


def terms_of(container: Any, kind: type[T]) -> dict[str, T]:
    """Return the terms of type ``kind`` in a container dataclass by name, without removed ones.

    Args:
        container: A dataclass whose fields are terms, or None.
        kind: The configuration class that its terms derive from.

    Raises:
        ConfigurationError: If a field holds anything but such a term.
    """
    if container is None:
        return {}
    terms = {}
    for item in dataclasses.fields(container):
        value = getattr(container, item.name)
        if isinstance(value, kind):
            terms[item.name] = value
        elif value is not None and isinstance(value, TermCfg):
            raise ConfigurationError(
                f"{type(container).__name__}.{item.name} is a {type(value).__name__}, "
                f"but must be a {kind.__name__}."
            )
    return terms
