"""``isaaclab.sim.utils.stage`` over :mod:`envlab_isaaclab.stage`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from envlab_isaaclab import stage
from envlab_isaaclab.stage import Stage

__all__ = [
    "attach_stage_to_usd_context",
    "clear_stage",
    "close_stage",
    "create_new_stage",
    "create_new_stage_in_memory",
    "get_current_stage",
    "get_current_stage_id",
    "is_current_stage_in_memory",
    "is_stage_loading",
    "open_stage",
    "save_stage",
    "update_stage",
    "use_stage",
]


def get_current_stage(fabric: bool = False) -> Stage:
    """Return the stage."""
    return stage.current()


def get_current_stage_id() -> int:
    """Return a number: there is one stage."""
    return 1


def create_new_stage(*arguments: Any, **keywords: Any) -> Stage:
    """Begin an empty stage."""
    return stage.renew()


create_new_stage_in_memory = create_new_stage


@contextlib.contextmanager
def use_stage(used: Any) -> Iterator[None]:
    """Do what follows on the stage, as is always so."""
    yield


def is_current_stage_in_memory() -> bool:
    """Return False: there is no other place."""
    return False


is_stage_loading = is_current_stage_in_memory


def _done(*arguments: Any, **keywords: Any) -> bool:
    """Do nothing, for there is no USD file or window."""
    return True


attach_stage_to_usd_context = update_stage = open_stage = save_stage = close_stage = _done
clear_stage = _done
