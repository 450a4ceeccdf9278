"""Entry points of the layer for Isaac Lab: a command."""

from __future__ import annotations

from envlab.commands import Command

ISAACLAB = Command(
    name="isaaclab",
    main="envlab_isaaclab.check:main",
    usage="isaaclab check PATH",
    description="what a project for Isaac Lab spawns and needs that is not here",
    words=("check",),
)
