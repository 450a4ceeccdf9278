"""Entry points of the layer for Isaac Lab: a command, and flags that name a project's task."""

from __future__ import annotations

from envlab.commands import Command
from envlab.training.flags import GuestFlags

ISAACLAB = Command(
    name="isaaclab",
    main="envlab_isaaclab.check:main",
    usage="isaaclab check PATH",
    description="what a project for Isaac Lab spawns and needs that is not here",
    words=("check",),
)
PROJECTS = GuestFlags(
    flags="envlab_isaaclab.flags:IsaacLabFlags",
    prepare="envlab_isaaclab.flags:find_task",
    listing="envlab_isaaclab.listing:table",
    listing_help="instead, the tasks of the installed Isaac Lab, or those that this checkout of a "
    "project for it registers, and what each needs that is not here",
)
