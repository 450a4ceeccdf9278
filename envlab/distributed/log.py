"""Logging with the rank in the prefix; ranks other than 0 log only warnings and above.

:data:`on_each_node` is for messages of the first rank of each node in its node's own output.
"""

from __future__ import annotations

import logging
import sys

from envlab.foreign import printable

on_each_node = logging.getLogger("envlab.node")
"""Logs from any rank, at every level; callers make sure that only one rank per node uses it."""
on_each_node.setLevel(logging.INFO)


class _RankFormatter(logging.Formatter):
    """``[rank 1] WARNING message``; with a single process the rank is omitted."""

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
