"""Which commit this code is of. It imports no torch."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

DEADLINE_S = 10.0


def git_state() -> dict[str, Any] | None:
    """Return the commit that envlab runs from, and whether files differ from it; None without."""
    command = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit, status = (
            subprocess.run(
                [*command, *words],
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=True,
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(status)}
