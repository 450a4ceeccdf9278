"""Runs scripts for Isaac Lab in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script, with its words, by the launcher."""
    return subprocess.run(
        [sys.executable, "-m", "envlab_isaaclab", *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, **variables},
    )


def seen(script: str, *words: str) -> dict[str, Any]:
    """Return what one of this folder's scripts printed as JSON."""
    done = run(str(HERE / script), *words, "--headless", "--device=cpu")
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("SEEN "))
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found
