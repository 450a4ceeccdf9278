"""The command line: ``envlab list | train | play | ...``, the same functions as the scripts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# First, so that Ctrl-C while the rest is imported also prints only a word.
import envlab.interrupts  # noqa: F401  # isort: split
from envlab.arguments import ArgumentParser
from envlab.commands import commands
from envlab.distributed.program import run_script
from envlab.errors import ConfigurationError, did_you_mean
from envlab.libraries import default_library, get_library, libraries
from envlab.registry import get_task, load_entry_point
from envlab.run.manifest import LOG_ROOT, read_manifest, read_manifests
from envlab.run.pretrained import SELECTOR, fetch, is_remote
from envlab.training.arguments import read_words

OF_LIBRARIES = {
    "play": "envlab.training.play:run_playing",
    "config": "envlab.training.config:run_config",
    "export": "envlab.training.play:run_export",
}
"""Functions of commands followed by a library's name, except ``train``."""
NAMES = ("train", *OF_LIBRARIES, "view")
"""Commands that are not in the table of commands."""
ELSEWHERE = {
    "list_envs": "envlab list",
    "random_agent": "envlab random",
    "zero_agent": "envlab zero",
    "sweep": "envlab train ... -m, with several values in an override",
    "train_multigpu": "envlab train ... --nproc 2",
}
"""Commands that users may look for: Isaac Lab's, and those that are flags here."""

USAGE = """usage: envlab COMMAND ...

  train LIBRARY --task ID ...      train, like scripts/reinforcement_learning/LIBRARY/train.py
  play LIBRARY --task ID ...       run and export a trained policy; for train and play, LIBRARY may
                                   also be given as --rl_library LIBRARY, or left out
  export LIBRARY --task ID ...     write a policy and the files that it needs to run elsewhere
  config LIBRARY --task ID ...     print the configuration that train would start with, as YAML
  view --task ID [--checkpoint C]  watch a task live in a browser; latest, best or a file plays
{commands}

Each command has --help. Libraries:

{libraries}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``envlab`` command."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        from envlab.completion import complete

        complete(NAMES)
    return run_script(_dispatch, arguments)


def play(library: str, arguments: Sequence[str] | None = None) -> int:
    """Run a library's ``play.py``."""
    return run_script(lambda words: _run("play", library, words), arguments)


def _dispatch(arguments: Sequence[str]) -> int:
    command, *rest = list(arguments) or ["--help"]
    if command in ("-h", "--help"):
        return _print_usage()
    if command == "view" and "--terrain" in rest:
        drawn: int = load_entry_point("envlab.tools.view_terrain:main")(rest)
        return drawn
    if command == "view":
        command, rest = words_to_view(rest)
    if command in NAMES:
        if rest in (["-h"], ["--help"]):
            return _print_usage()
        return _run(command, *_library_first(command, rest))
    if command in ELSEWHERE:
        raise ConfigurationError(f"There is no command {command!r}. Use {ELSEWHERE[command]}.")
    known = commands()
    if command not in known:
        near = did_you_mean(command, [*known, *NAMES])
        raise ConfigurationError(f"There is no command {command!r}.{near} See envlab --help.")
    code: int = load_entry_point(known[command].main)(rest)
    return code


def words_to_view(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command for ``view``: play a checkpoint, or show the task without actions."""
    parser = ArgumentParser(
        prog="envlab view",
        description="Watch a task live in a browser, with a trained policy or with zero actions.",
        epilog="Other flags are those of 'envlab play', or of 'envlab zero' without a checkpoint; "
        "--terrain draws the task's ground instead.",
    )
    parser.add_argument("--task", required=True, metavar="ID", help="task id")
    parser.add_argument("--checkpoint", metavar="CKPT", help="latest, best, pretrained, or a path")
    parser.add_argument("--rl_library", metavar="LIBRARY", help="default: the one that trained it")
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
    if is_remote(flags.checkpoint):
        flags.checkpoint = str(fetch(flags.checkpoint))
    library = flags.rl_library or _library_of(flags.checkpoint, flags.task)
    chosen = [] if library is None else [f"--rl_library={library}"]
    return "play", [*chosen, *rest, f"--checkpoint={flags.checkpoint}", "--no_export"]


def _library_of(checkpoint: str, task_id: str) -> str | None:
    """Return the library that trained a checkpoint: of its run, or of the task's newest run."""
    from envlab.run.pretrained import policies

    run = Path(checkpoint).parent.parent
    if (run / "run.json").is_file():
        return str(read_manifest(run).get("library"))
    task = get_task(task_id)
    wanted = {task.id, task.trained_id}
    if checkpoint == SELECTOR:
        return next((str(policy.manifest["library"]) for policy in policies(wanted)), None)
    found = [
        str(manifest.get("library"))
        for manifest in read_manifests(Path(LOG_ROOT), "*/*/*").values()
        if manifest.get("task") in wanted
    ]
    return found[-1] if found else None


def _library_first(command: str, words: Sequence[str]) -> tuple[str, list[str], str]:
    """Return the library, the other words, and a message about the choice.

    A library is named first, by ``--rl_library``, or not at all: then it is the first one for which
    the task has a configuration.
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
    library = default_library(get_task(flags.task))
    return library, rest, f"No library was named; taking {library} (--rl_library {library})."


def _print_usage() -> int:
    described = {
        command.usage: command.description for command in commands().values() if command.usage
    }
    rows = [f"  {usage:<32} {description}" for usage, description in described.items()]
    ways = [f"  {library.name:<32} {library.description}" for library in libraries().values()]
    print(USAGE.format(commands="\n".join(rows), libraries="\n".join(ways)))
    return 0


def _run(command: str, name: str, words: Sequence[str], choice: str = "") -> int:
    """Train, play or export with a library, or print a configuration."""
    library = get_library(name)
    if command == "train":
        from envlab.training.launch import train_with

        return train_with(library, words, choice)
    flags, overrides = read_words(command, library, words, choice)
    code: int = load_entry_point(OF_LIBRARIES[command])(library, flags, overrides)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
