"""Runs scripts for Isaac Lab in processes of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests import launcher

HERE = Path(__file__).parent
MODULE = ["-m", "envlab_isaaclab"]


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Run a script, with its words, by the launcher; return its exit code and what it printed."""
    return launcher.run([sys.executable, *MODULE, *words], folder, deadline_s=400.0)


def seen(folder: Path, script: str, *words: str) -> dict[str, Any]:
    """Return what one of this folder's scripts printed as JSON."""
    code, output = run(folder, str(HERE / script), *words, "--headless", "--device=cpu")
    assert code == 0, output[-3000:]
    line = next(line for line in output.splitlines() if line.startswith("SEEN "))
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found
