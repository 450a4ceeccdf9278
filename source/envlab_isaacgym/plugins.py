"""Entry points of the Isaac Gym layer: a command."""

from __future__ import annotations

from envlab.commands import Command

ISAACGYM = Command(
    name="isaacgym",
    main="envlab_isaacgym.check:main",
    usage="isaacgym check PATH",
    description="list what code for Isaac Gym uses, and whether it is supported",
    words=("check",),
)
