"""Entry points of the browser's pages: a command. Viewers have separate entry points."""

from __future__ import annotations

from envlab.commands import Command

DASHBOARD = Command(
    name="dashboard",
    main="envlab_web.dashboard.command:main",
    usage="dashboard [LOGS]",
    description="runs in the browser: curves, ranks, checkpoints, videos, logs",
)
