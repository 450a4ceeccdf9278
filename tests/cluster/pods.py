"""Launches of a scheduler's file: bash expands each node's words, and torchrun gets them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.launcher import Launch
from tests.trained import manifest_of, metrics_of, only_run


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


def train_stop_and_resume(nodes: Sequence[Sequence[str]], folder: Path) -> None:
    """Launch torchrun with each node's words, end all by SIGTERM like pods, and repeat."""
    ends = []
    for _ in range(2):
        before = _checkpoints(folder)
        launches = [Launch([sys.executable, *words], folder) for words in nodes]
        try:
            launches[0].wait_until(lambda: len(_checkpoints(folder) - before) >= 2)  # noqa: B023
            for launch in launches:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(launch.process.pid, signal.SIGTERM)
            # A pod's exit code must be one that its scheduler retries.
            assert {launch.wait() for launch in launches} <= {75, 143}
        finally:
            for launch in launches:
                launch.close()
        manifest = manifest_of(only_run(folder))
        assert (manifest["status"], manifest["world"]["size"]) == ("preempted", 2)
        ends.append(manifest["iteration"])
    (restarted,) = manifest["restarts"]
    assert (restarted["iteration"], restarted["after"]) == (ends[0], "preempted")
    iterations = [record["iteration"] for record in metrics_of(only_run(folder))]
    assert iterations == list(range(1, ends[1] + 1))


def _checkpoints(folder: Path) -> set[Path]:
    return set(folder.glob("logs/*/*/*/checkpoints/model_*.pt"))
