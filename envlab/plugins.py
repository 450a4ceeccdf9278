"""Additions of installed packages, by entry points of groups such as ``envlab.tasks``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
from functools import cache
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)


class Plugins(NamedTuple):
    """The entry points of a group."""

    found: dict[str, Any]
    """Their objects, by name."""
    failed: dict[str, str]
    """Errors of those that could not be loaded, by module."""


@cache
def load_plugins(group: str, kind: type = object) -> Plugins:
    """Load the objects of a group's entry points, once.

    One that cannot be loaded is reported and skipped, so that the others can be used.

    Args:
        group: The group.
        kind: Required type of each.
    """
    plugins = Plugins({}, {})
    for entry_point in importlib.metadata.entry_points(group=group):
        if not _is_there(entry_point):
            continue
        try:
            loaded = entry_point.load()
            if not isinstance(loaded, kind):
                raise TypeError(f"it is a {type(loaded).__name__}, not a {kind.__name__}")
        except Exception as error:  # of another package, which must not stop ours
            plugins.failed[entry_point.value] = f"{type(error).__name__}: {error}"
            logger.warning(
                "%s (entry point %r of %s) cannot be loaded and is skipped: %s",
                entry_point.value,
                entry_point.name,
                group,
                plugins.failed[entry_point.value],
            )
        else:
            plugins.found[entry_point.name] = loaded
    return plugins


def named_plugins(group: str) -> dict[str, str]:
    """Return the values of a group's entry points as text, by name, without loading them."""
    return {
        entry_point.name: entry_point.value
        for entry_point in importlib.metadata.entry_points(group=group)
        if _is_there(entry_point)
    }


def _is_there(entry_point: importlib.metadata.EntryPoint) -> bool:
    """Return whether to load it: always, except for guests whose folders were removed."""
    if entry_point.dist is None or entry_point.dist.name != __package__:
        return True
    return importlib.util.find_spec(entry_point.module.partition(".")[0]) is not None
