"""Bringing a run directory back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from envlab.cluster.hosts import Host
from envlab.cluster.snapshot import rsync
from envlab.cluster.ssh import HostError, Ssh, on_all
from envlab.cluster.state import RunState
from envlab.errors import RunDirectoryError


def fetch_here(run: RunState, ssh: Ssh, say: Callable[[str], None]) -> None:
    """Copy a run's directory below the current folder, and say where it is.

    Raises:
        EnvlabError: As :func:`fetch_run`.
    """
    for path in fetch_run(run, ssh, Path.cwd()):
        say(f"Run directory: {path.relative_to(Path.cwd())}")


def fetch_run(run: RunState, ssh: Ssh, target: Path) -> list[Path]:
    """Copy a run's directory from the host that has it to ``target/logs/...``.

    Raises:
        RunDirectoryError: If no host that answers has one.
        HostError: If it cannot be copied.
    """

    def locate(host: Host) -> str:
        node = run.node_of(host)
        words = [node.path, node.folder, run.token(node), run.run_id]
        return ssh.run(host, "status.sh", *words).values.get("run", "")

    answers = on_all(run.hosts, locate)
    found = {host: path for host, path in answers.items() if isinstance(path, str) and path}
    if not found:
        silent = [str(answer) for answer in answers.values() if isinstance(answer, HostError)]
        raise RunDirectoryError(
            f"No host has a run directory of {run.id} yet. {' '.join(silent)}".strip()
        )
    copies = []
    for host, path in found.items():
        inside = Path(path).relative_to(run.node_of(host).path)
        copy = target / inside
        copy.mkdir(parents=True, exist_ok=True)
        rsync(ssh, host, ["-t", f"host:{path}/", f"{copy}/"])
        copies.append(copy)
    return copies
