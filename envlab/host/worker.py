"""A worker process with its own environments, which it steps on request."""

from __future__ import annotations

import logging
import mmap
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from envlab.host.batch import Arrays, LocalBatch
from envlab.host.maker import EnvMaker


@dataclass(frozen=True)
class Share:
    """A worker's part of the environments."""

    maker: EnvMaker
    layout: dict[str, Any]
    start: int
    """Row of its first environment."""
    stop: int
    """Row after its last one."""
    first_env: int
    """Global index of its first environment, for messages."""
    render_mode: str | None


def main(pipe: Connection, order: bytes, memory: int) -> None:
    """Serve until the connection is closed.

    Args:
        pipe: Connection to the parent.
        order: The worker's :class:`Share`.
        memory: File descriptor of the shared arrays.
    """
    # Signals sent to all processes of a job are for the parent, which ends us, or saves first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("envlab").setLevel(logging.ERROR)  # the parent has logged the rest
    share: Share = cloudpickle.loads(order)
    arrays = Arrays.on(mmap.mmap(memory, 0), share.layout).rows(share.start, share.stop)
    batch = LocalBatch(share.maker, arrays, share.first_env, share.render_mode)
    try:
        pipe.send(None)
        while True:
            pipe.send(getattr(batch, pipe.recv())())
    finally:
        batch.close()
