"""A worker process: environments of its own, which it steps when it is told to.

It ends by itself when its parent does, however that ended: it looks every half second, also while
an environment steps, and a closed connection ends it at once.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from envlab.errors import EnvlabError
from envlab.host.batch import Arrays, LocalBatch
from envlab.host.maker import EnvMaker

LOOK_S = 0.5
"""Time between two looks at whether the parent lives."""


@dataclass(frozen=True)
class Share:
    """What a worker is told at its start."""

    maker: EnvMaker
    layout: dict[str, Any]
    start: int
    """Row of its first environment."""
    stop: int
    """Row after its last one."""
    first_env: int
    """Global index of its first environment, for messages."""
    render_mode: str | None


def main(connection: int, memory: int, parent: int) -> None:
    """Serve until the connection is closed.

    Args:
        connection: File descriptor of the connection to the parent.
        memory: File descriptor of the shared arrays.
        parent: Process id of the parent.
    """
    # Signals that reach all processes of a job are the parent's, which ends us, or saves first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("envlab").setLevel(logging.ERROR)  # the parent has said the rest
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with Connection(connection) as pipe, contextlib.suppress(EOFError, OSError):
        share: Share = cloudpickle.loads(pipe.recv_bytes())
        with _answering(pipe):
            arrays = Arrays.on(mmap.mmap(memory, 0), share.layout).rows(share.start, share.stop)
            batch = LocalBatch(share.maker, arrays, share.first_env, share.render_mode)
            pipe.send((True, None))
            try:
                while True:
                    pipe.send((True, getattr(batch, pipe.recv())()))
            finally:
                batch.close()


@contextlib.contextmanager
def _answering(pipe: Connection) -> Iterator[None]:
    """Tell the parent what went wrong, in its own words where it is a user's error."""
    try:
        yield
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise
    except EnvlabError as error:
        pipe.send((False, error))
    except Exception as error:
        pipe.send((False, f"{type(error).__name__}: {error}"))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
