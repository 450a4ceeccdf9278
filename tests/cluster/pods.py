"""Launches of a scheduler's file: bash expands each node's words, and torchrun gets them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def words_of_torchrun(
    command: Sequence[str], variables: Mapping[str, str], folder: Path
) -> list[str]:
    """Run a node's command with a ``python`` that records its words; return them."""
    python = folder / "bin/python"
    python.parent.mkdir(exist_ok=True)
    python.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >'{folder}/words'\n")
    python.chmod(0o755)
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(folder), **variables}
    subprocess.run(command, env=environment, cwd=folder, check=True, timeout=30)
    return (folder / "words").read_text().split("\0")[:-1]


def shellcheck(script: str) -> None:
    """Require that shellcheck finds nothing in a script."""
    done = subprocess.run(["shellcheck", "-"], input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
