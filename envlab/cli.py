"""The command line: ``envlab list | train | play | ...``, the same functions as the scripts."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from envlab.commands import commands
from envlab.errors import ConfigurationError, EnvlabError, did_you_mean, term_error
from envlab.libraries import get_library, libraries
from envlab.registry import get_task, load_entry_point
from envlab.runs.manifest import LOG_ROOT, read_manifest, read_manifests
from envlab.runs.pretrained import SELECTOR
from envlab.train.arguments import (
    ArgumentParser,
    export_parser,
    play_parser,
    train_parser,
)
from envlab.train.flag_checks import check_any_run, checkpoint_file, given_config
from envlab.train.flags import Flags
from envlab.train.isaac_lab import without_effect_line
from envlab_cluster.interrupts import INTERRUPTED

# Before torch loads OpenMP. Its threads spin while they wait for each other, which on a machine
# with other work made updates of a small network 50 times slower (0.13 s to 7 s); passive ones cost
# at most a quarter on an idle machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# rsl_rl imports GitPython, which without this refuses to be imported where there is no git.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

OF_LIBRARIES = {
    "train": "envlab.train.launch:run_training",
    "play": "envlab.train.play:run_playing",
    "config": "envlab.train.config:run_config",
    "export": "envlab.train.play:run_export",
}
"""What runs a command that a library's name follows."""
PARSERS = {"play": play_parser, "export": export_parser}
"""Flags of the commands that take a trained policy; the others have those of ``train``."""
ELSEWHERE = {
    "list_envs": "envlab list",
    "random_agent": "envlab random",
    "zero_agent": "envlab zero",
    "sweep": "envlab train ... -m, with several values in an override",
    "train_multigpu": "envlab train ... --nproc 2",
}
"""Commands that one may look for: Isaac Lab's, and what a flag does here."""

USAGE = """usage: envlab COMMAND ...

  train LIBRARY --task ID ...      train; what scripts/reinforcement_learning/LIBRARY/train.py does
  play LIBRARY --task ID ...       run and export a trained policy; of train and play, LIBRARY may
                                   also be given as --rl_library LIBRARY, or left out
  export LIBRARY --task ID ...     write a policy and all that belongs to it, to run it elsewhere
  config LIBRARY --task ID ...     print the configuration that train would start with, as YAML
  view --task ID [--checkpoint C]  watch a task live in a browser; latest, best or a file plays
{commands}

Each command has --help. Libraries:

{libraries}"""


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
        from envlab.distributed.ranks import tell

        return tell(error)
    except Exception as error:
        from envlab.distributed.ranks import tell, tell_launcher

        told = term_error(error)
        if told is not None:
            return tell(told)

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

        complete([*OF_LIBRARIES, "view"])
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
    if command == "view":
        command, rest = _viewing(rest)
    if command in OF_LIBRARIES:
        if rest in (["-h"], ["--help"]):
            return _print_usage()
        return _call(command, *_library_first(command, rest))
    if command in ELSEWHERE:
        raise ConfigurationError(f"There is no command {command!r}. Use {ELSEWHERE[command]}.")
    known = commands()
    if command not in known:
        names = [*known, *OF_LIBRARIES, "view"]
        raise ConfigurationError(
            f"There is no command {command!r}.{did_you_mean(command, names)} See envlab --help."
        )
    code: int = load_entry_point(known[command].main)(rest)
    return code


def _viewing(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command that ``view`` stands for: a checkpoint is played; else nothing acts."""
    parser = ArgumentParser(
        prog="envlab view",
        description="Watch a task live in a browser, with a trained policy or with zero actions.",
        epilog="All else is as of 'envlab play', or of 'envlab zero' where there is no checkpoint.",
    )
    parser.add_argument("--task", required=True, metavar="ID", help="task id")
    parser.add_argument("--checkpoint", metavar="CKPT", help="latest, best, pretrained, or a path")
    parser.add_argument("--rl_library", metavar="LIBRARY", help="default: what trained it")
    parser.add_argument("--viz", default="web", metavar="VIEWER", help="web (default) or native")
    flags, rest = parser.parse_known_args(list(words))
    rest = [f"--task={flags.task}", f"--viz={flags.viz}", *rest]
    if flags.checkpoint is None:
        if flags.rl_library is not None:
            raise ConfigurationError(
                "--rl_library has no effect without --checkpoint. Add one, such as --checkpoint "
                "latest, or leave the library out."
            )
        return "zero", rest
    library = flags.rl_library or _library_of(flags.checkpoint, flags.task)
    chosen = [] if library is None else [f"--rl_library={library}"]
    return "play", [*chosen, *rest, f"--checkpoint={flags.checkpoint}", "--no_export"]


def _library_of(checkpoint: str, task_id: str) -> str | None:
    """Return what trained a checkpoint: that of its run, or of the task's newest run."""
    from envlab.runs.pretrained import policies

    run = Path(checkpoint).parent.parent
    if (run / "run.json").is_file():
        return str(read_manifest(run).get("library"))
    task = get_task(task_id)
    wanted = {task.id, task.trained_id}
    if checkpoint == SELECTOR:
        return next((str(one.manifest["library"]) for one in policies(wanted)), None)
    found = [
        str(manifest.get("library"))
        for manifest in read_manifests(Path(LOG_ROOT), "*/*/*").values()
        if manifest.get("task") in wanted
    ]
    return found[-1] if found else None


def _library_first(command: str, words: Sequence[str]) -> tuple[str, list[str], str]:
    """Return the library, the other words, and what to say of the choice.

    A library is named first, by ``--rl_library``, or not at all: then it is the first one that the
    task has a configuration for.
    """
    if words and not words[0].startswith("-") and "=" not in words[0]:
        return words[0], list(words[1:]), ""
    parser = ArgumentParser(prog=command, add_help=False)
    parser.add_argument("--rl_library", "--library", metavar="LIBRARY")
    parser.add_argument("--task")
    flags, rest = parser.parse_known_args(list(words))
    if flags.task is None and {"-h", "--help"} & set(rest):
        return flags.rl_library or "rsl_rl", rest, ""
    if flags.task is None:
        raise ConfigurationError(f"Name a library and a task: envlab {command} rsl_rl --task ID.")
    rest = [f"--task={flags.task}", *rest]
    if flags.rl_library is not None:
        return flags.rl_library, rest, ""
    configured = get_task(flags.task).libraries
    library = next((name for name in configured if name in libraries()), "rsl_rl")
    return library, rest, f"No library was named; taking {library} (--rl_library {library})."


def _say(line: str) -> None:
    """Print a line about the command line to standard error, once for all ranks."""
    from envlab.distributed.ranks import launched_rank

    if launched_rank() == 0:
        print(line, file=sys.stderr)


def _print_usage() -> int:
    described = {one.usage: one.description for one in commands().values() if one.usage}
    rows = [f"  {usage:<32} {description}" for usage, description in described.items()]
    ways = [f"  {library.name:<32} {library.description}" for library in libraries().values()]
    print(USAGE.format(commands="\n".join(rows), libraries="\n".join(ways)))
    return 0


def _run_library(command: str, library: str, arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    return _supervised(lambda: guarded(lambda words: _call(command, library, words), given))


def _call(command: str, name: str, arguments: Sequence[str], choice: str = "") -> int:
    """Train, play or export with a library, or print a configuration.

    Flags and the task are checked before torch and the library take their seconds to load.
    """
    library, given = get_library(name), arguments
    if library.prepare is not None:
        # What it makes of the words may depend on how many processes there are.
        code = _launch(name, given) if command == "train" else None
        if code is not None:
            return code
        arguments = library.load("prepare")(command, arguments)
    parser = PARSERS.get(command, train_parser)(library)
    flags, overrides = parser.parse_with_overrides(arguments)
    get_task(flags.task)
    _check_early(command, name, flags)
    for line in (choice, without_effect_line(flags)):
        if line:
            _say(line)
    if command == "train" and flags.nproc is not None:
        return _launch(name, given, flags.ml_framework) or 0
    if flags.video:
        _choose_opengl_early()
    ended: int = load_entry_point(OF_LIBRARIES[command])(library, flags, overrides)
    return ended


def _check_early(command: str, library: str, flags: Flags) -> None:
    """Refuse what takes neither torch nor the task's configuration to see."""
    if command in PARSERS:
        if checkpoint_file(flags) is None and not (flags.load_run or flags.checkpoint == SELECTOR):
            check_any_run(library, get_task(flags.task))
        return
    given_config(flags)
    if command == "train":
        from envlab.distributed.ranks import check_num_processes, read_ranks

        if flags.nproc is None:
            read_ranks(flags.distributed, os.environ)
        else:
            check_num_processes(flags.nproc, flags.ml_framework, os.environ)


def _launch(library: str, arguments: Sequence[str], framework: str | None = None) -> int | None:
    """Train on several processes of this machine, if ``--nproc`` says so, and wait for them."""
    from envlab.distributed.ranks import NUM_PROCESSES, check_num_processes

    parser = ArgumentParser(add_help=False)
    parser.add_argument(*NUM_PROCESSES, type=int)
    flags, rest = parser.parse_known_args(list(arguments))
    if flags.nproc is None:
        return None
    check_num_processes(flags.nproc, framework, os.environ)
    from envlab.distributed.torchrun import launch

    words = ["-m", "envlab", "train", library, *(word for word in rest if word != "--distributed")]
    return launch(flags.nproc, [*words, "--distributed"])


def _choose_opengl_early() -> None:
    """Choose what rank 0 renders videos with before mujoco, which then cannot change, is loaded."""
    from envlab.distributed.ranks import launched_rank
    from envlab.sim.opengl import choose_opengl

    if launched_rank() == 0:
        choose_opengl()


if __name__ == "__main__":
    raise SystemExit(main())
