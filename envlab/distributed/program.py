"""How envlab's programs end: bad input with one sentence and code 2, Ctrl-C with a word and 130."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence

from envlab.errors import EnvlabError, term_error
from envlab.interrupts import INTERRUPTED

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
