"""How envlab's programs log, and how they end.

The rank is in the log's prefix; ranks other than 0 log only warnings and above.
:data:`on_each_node` is for messages of the first rank of each node in its node's own output. Bad
input ends a program with one sentence and code 2, Ctrl-C with a word and 130.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable, Sequence

from envlab.errors import EnvlabError, term_error
from envlab.foreign import printable
from envlab.interrupts import INTERRUPTED

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


# Set before torch loads OpenMP, whose threads spin while they wait for each other. On a machine
# with other work this made updates of a small network 50 times slower (0.13 s to 7 s). Passive
# threads cost at most a quarter on an idle machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# rsl_rl imports GitPython, whose import otherwise fails if git is missing.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")


def guarded(function: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Return the exit code of ``function(arguments)``, or 2 after a sentence on bad input."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # it may not encode all characters of the logs
        sys.stdout.reconfigure(errors="replace")
    try:
        return function(arguments)
    except BrokenPipeError:  # the reader, such as head, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except EnvlabError as error:
        from envlab.distributed.ranks import tell

        return tell(error)
    except Exception as error:
        from envlab.distributed.disk import full_disk
        from envlab.distributed.ranks import tell, tell_launcher

        told = term_error(error) or full_disk(error)
        if told is not None:
            return tell(told)

        tell_launcher(error)
        raise
    except KeyboardInterrupt as interrupt:
        print(f"\n{interrupt}".rstrip() or "\nInterrupted.", file=sys.stderr)
        return INTERRUPTED


def run_script(
    function: Callable[[Sequence[str]], int], arguments: Sequence[str] | None = None
) -> int:
    """Return the exit code of a program: :func:`guarded`, by default with the command line's words.

    If skrl's launcher for JAX started this process, a supervisor runs it in a child process.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if "JAX_RANK" not in os.environ:
        return guarded(function, given)
    from envlab.distributed.skrl_launcher import run_supervised

    return run_supervised(lambda: guarded(function, given))
