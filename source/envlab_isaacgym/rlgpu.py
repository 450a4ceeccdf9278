"""``isaacgym.rlgpu``: tasks in C++, which ASE imports needlessly."""

from __future__ import annotations

from typing import NoReturn

from envlab.errors import EnvlabError


class MissingNameError(EnvlabError, AttributeError):
    """A script reached a missing name."""

    same_on_all_ranks = False


def __getattr__(name: str) -> NoReturn:
    raise MissingNameError(
        f"isaacgym.rlgpu.{name} is not implemented: Isaac Gym's tasks in C++ are missing, only "
        "those in Python exist."
    )
