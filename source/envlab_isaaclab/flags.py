"""``--isaaclab FOLDER``: a task of a project for Isaac Lab, for the ways to train of envlab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from envlab.config.ranges import Excludes, Requires
from envlab.errors import ConfigurationError
from envlab.training.flags import Flags, flag

if TYPE_CHECKING:
    from envlab.config import Override

OF = "train play export"
"""The commands that have the flags."""


@dataclass(kw_only=True)
class IsaacLabFlags:
    """Where the task and the files that it needs are."""

    isaaclab: Annotated[
        str | None,
        Excludes("--validate", "the process that validates finds no such task"),
        Excludes("--video --viz", "Isaac Lab's tasks are not drawn here"),
    ] = flag(
        "the task is one that this checkout of a project for Isaac Lab registers, or Isaac Lab's "
        "own, of its folder: docs/from_isaac_lab.md",
        "FOLDER",
        of=OF,
    )
    nucleus: Annotated[str | None, Requires("--isaaclab")] = flag(
        "with --isaaclab: a folder with copies of files from Nvidia's server", "FOLDER", of=OF
    )


def find_task(flags: Flags, overrides: list[Override]) -> list[Override]:
    """Register the task that the flags name; return the overrides under today's names.

    Raises:
        EnvlabError: If there is no such folder or task, or no Isaac Lab.
    """
    folder = vars(flags)["isaaclab"]
    if not Path(folder).is_dir():
        raise ConfigurationError(
            f"--isaaclab is {folder!r}, which is no folder. Give the checkout of a project for "
            "Isaac Lab, or Isaac Lab's own."
        )
    from envlab_isaaclab.launcher import prepare
    from envlab_isaaclab.upstream import is_isaac_lab

    prepare(folder if is_isaac_lab(folder) else None, vars(flags)["nucleus"])
    from envlab_isaaclab.tasks import networks_of, register_task, renamed

    flags.task = register_task(folder, flags.task)
    return renamed(overrides, networks_of(flags.task, flags.agent))
