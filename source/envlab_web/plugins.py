"""What the browser's pages add to envlab: a command. Viewers are named by their entry points."""

from __future__ import annotations

from envlab.commands import Command

DASHBOARD = Command(
    name="dashboard",
    main="envlab_web.dashboard.command:main",
    usage="dashboard [LOGS]",
    description="runs in the browser: curves, ranks, checkpoints, videos, logs",
)
