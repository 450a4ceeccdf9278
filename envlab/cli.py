"""The command line: ``envlab list | train | play | ...``, the same functions as the scripts."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence

from envlab.cluster.interrupts import INTERRUPTED
from envlab.errors import ConfigurationError, EnvlabError, did_you_mean
from envlab.registry import get_task, load_entry_point
from envlab.rl.command.arguments import play_parser, train_parser
from envlab.rl.libraries import get_library, libraries

# Before torch loads OpenMP. Its threads spin while they wait for each other, which on a machine
# with other work made updates of a small network 50 times slower (0.13 s to 7 s); passive ones cost
# at most a quarter on an idle machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# rsl_rl imports GitPython, which without this refuses to be imported where there is no git.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

COMMANDS = {
    "list": "envlab.tools.listing:main",
    "random": "envlab.tools.agents:random_main",
    "zero": "envlab.tools.agents:zero_main",
    "warm": "envlab.tools.warm:main",
    "compare": "envlab.tools.compare.command:main",
    "doctor": "envlab.doctor.command:main",
    "cluster": "envlab.cluster.verbs:main",
    "completion": "envlab.completion:main",
}
"""What runs a command, but for ``train`` and ``play``, which a library's name follows."""

USAGE = """usage: envlab COMMAND ...

  list [--keyword WORD]            tasks, and the libraries they are configured for
  train LIBRARY --task ID ...      train; what scripts/reinforcement_learning/LIBRARY/train.py does
  play LIBRARY --task ID ...       run and export a trained policy
  random | zero --task ID ...      step a task with random or zero actions
  warm --task ID ...               compile the GPU kernels of a task ahead of its first run
  compare RUN...                   runs of any library as a table and a picture, over seeds
  cluster VERB                     train on several machines by ssh, or by Slurm
  doctor                           what this machine, or these ranks, can do, and what is wrong
  completion bash | zsh            print what makes the shell complete these commands

Each command has --help. Libraries:

"""


def guarded(function: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Return the exit code of ``function(arguments)``; bad input is one sentence and code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # logs may hold letters that it cannot write
        sys.stdout.reconfigure(errors="replace")
    try:
        return function(arguments)
    except BrokenPipeError:  # the reader, such as head, has gone; there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except EnvlabError as error:
        from envlab.distributed.ranks import launched_local_rank, tell_launcher

        tell_launcher(error)
        # One process a node: each node has a command line, and mistakes, of its own.
        if launched_local_rank() == 0 or not error.same_on_all_ranks:
            print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except Exception as error:
        from envlab.distributed.ranks import tell_launcher

        tell_launcher(error)
        raise
    except KeyboardInterrupt as interrupt:
        print(f"\n{interrupt}".rstrip() or "\nInterrupted.", file=sys.stderr)
        return INTERRUPTED


def _supervised(function: Callable[[], int]) -> int:
    """Call a function, below a supervisor where skrl's launcher for JAX started this process."""
    if "JAX_RANK" not in os.environ:
        return function()
    from envlab.distributed.skrl_launcher import run_supervised

    return run_supervised(function)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``envlab`` command."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what the words so far may become
        from envlab.completion import complete

        complete([*COMMANDS, "train", "play"])
    given = sys.argv[1:] if arguments is None else arguments
    return _supervised(lambda: guarded(_dispatch, given))


def train(library: str, arguments: Sequence[str] | None = None) -> int:
    """Run a library's ``train.py``."""
    return _run_library("train", library, arguments)


def play(library: str, arguments: Sequence[str] | None = None) -> int:
    """Run a library's ``play.py``."""
    return _run_library("play", library, arguments)


def _dispatch(arguments: Sequence[str]) -> int:
    command, *rest = list(arguments) or ["--help"]
    if command in ("-h", "--help"):
        return _print_usage()
    if command in ("train", "play"):
        if not rest:
            raise ConfigurationError(f"Name a library: envlab {command} rsl_rl --task ID ...")
        library, *rest = rest
        if library in ("-h", "--help"):
            return _print_usage()
        return _call(command, library, rest)
    if command not in COMMANDS:
        names = [*COMMANDS, "train", "play"]
        raise ConfigurationError(
            f"There is no command {command!r}.{did_you_mean(command, names)} See envlab --help."
        )
    code: int = load_entry_point(COMMANDS[command])(rest)
    return code


def _print_usage() -> int:
    rows = [f"  {library.name:<32} {library.description}" for library in libraries().values()]
    print(USAGE + "\n".join(rows))
    return 0


def _run_library(command: str, library: str, arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    return _supervised(lambda: guarded(lambda words: _call(command, library, words), given))


def _call(command: str, name: str, arguments: Sequence[str]) -> int:
    """Train or play with a library.

    Flags and the task are checked before torch and the library take their seconds to load.
    """
    library = get_library(name)
    parser = train_parser(library) if command == "train" else play_parser(library)
    flags, overrides = parser.parse_with_overrides(arguments)
    get_task(flags.task)
    if flags.video:
        _choose_opengl_early()
    module = "launch:run_training" if command == "train" else "play:run_playing"
    code: int = load_entry_point(f"envlab.rl.command.{module}")(library, flags, overrides)
    return code


def _choose_opengl_early() -> None:
    """Choose what rank 0 renders videos with before mujoco, which then cannot change, is loaded."""
    from envlab.distributed.ranks import launched_rank
    from envlab.rl.loop.opengl import choose_opengl

    if launched_rank() == 0:
        choose_opengl()


if __name__ == "__main__":
    raise SystemExit(main())
