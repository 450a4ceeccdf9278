"""The commands that launch a job on two nodes, as docs/distribute.md gives them."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.launcher import DEADLINE_S, Launch

ADDRESS = "127.0.0.1"


def free_port() -> int:
    """Return a port without a listener, outside the range of outgoing connections."""
    while True:
        port = 20000 + secrets.randbelow(12000)  # Linux uses those from 32768
        with contextlib.suppress(OSError), socket.create_server((ADDRESS, port)):
            return port


@contextlib.contextmanager
def dead_port() -> Iterator[int]:
    """Keep a port without a listener, and prevent any."""
    with socket.socket() as holder:
        holder.bind((ADDRESS, 0))
        yield int(holder.getsockname()[1])


def agent(
    node_rank: int,
    endpoint: str,
    script: Path,
    *arguments: str | Path,
    nnodes: str = "2",
    options: Sequence[str] = (),
) -> list[str | Path]:
    """Return the command that starts a node's only process by torchrun."""
    return [
        *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={nnodes}"),
        *("--nproc_per_node=1", f"--node_rank={node_rank}", "--rdzv_id=123"),
        *("--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}", *options),
        *(script, *arguments),
    ]


def end(launches: Sequence[Launch], deadline_s: float = DEADLINE_S) -> list[int]:
    """Return the exit codes of launches that belong together; none of their processes is left."""
    try:
        codes = [launch.wait(deadline_s) for launch in launches]
        # skrl's supervisors may take a moment longer than their launcher.
        assert [launch.left(10.0) for launch in launches] == [{} for _ in launches]
        return codes
    finally:
        for launch in launches:
            launch.close()
