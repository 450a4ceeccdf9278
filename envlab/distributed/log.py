"""Logging with the rank in the prefix; rank 0 speaks, the others only from warnings up.

:data:`on_each_node` is for what the first rank of each node says in its node's own output.
"""

from __future__ import annotations

import logging
import sys

from envlab.foreign import printable

on_each_node = logging.getLogger("envlab.node")
"""Heard from any rank, at every level: whoever uses it sees to it that one rank a node does."""
on_each_node.setLevel(logging.INFO)


class _RankFormatter(logging.Formatter):
    """``[rank 1] WARNING message``; the rank is left out where there is one process."""

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__("%(message)s")
        self._prefix = f"[rank {rank}] " if world_size > 1 else ""

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname} " if record.levelno >= logging.WARNING else ""
        return printable(f"{self._prefix}{level}{super().format(record)}")


def configure_logging(rank: int = 0, world_size: int = 1, *, verbose: bool = False) -> None:
    """Send envlab's log to standard error: all of rank 0, warnings of the other ranks.

    Args:
        rank: Global rank of this process.
        world_size: Number of processes.
        verbose: Whether every rank logs everything, debug messages included.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_RankFormatter(rank, world_size))
    root = logging.getLogger("envlab")
    root.handlers[:] = [handler]
    root.propagate = False
    if verbose:
        root.setLevel(logging.DEBUG)
    else:
        root.setLevel(logging.INFO if rank == 0 else logging.WARNING)
