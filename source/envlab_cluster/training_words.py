"""The words of a training, checked here before they are sent to the hosts."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.errors import ConfigurationError
from envlab.libraries import Library, get_library, libraries
from envlab.registry import get_task
from envlab.training.arguments import train_parser
from envlab_cluster.snapshot import Snapshot

SCRIPT = "scripts/reinforcement_learning/{library}/train.py"


def without_dashes(words: Sequence[str]) -> list[str]:
    """Return words without the ``--`` that may separate them from a verb's own flags."""
    return list(words[1:] if words[:1] == ["--"] else words)


def library_of(first: str) -> str | None:
    """Return the library whose training the first word names, by its name or its script's path."""
    if first in libraries():
        return first
    return next(
        (library for library in libraries() if first.endswith(SCRIPT.format(library=library))), None
    )


def check_training(library: str, words: Sequence[str], num_nodes: int | None = None) -> str:
    """Refuse what train.py would only refuse minutes later elsewhere; return the task's id.

    Args:
        library: The library's name.
        words: Flags and overrides of train.py.
        num_nodes: Number of nodes; None if unknown.

    Raises:
        EnvlabError: For an unknown flag or task, a word that is no override, or an experiment for
            another number of nodes.
    """
    one = get_library(library)
    if one.prepare is not None:
        words = one.load("prepare")("launch", words, num_nodes)
    flags, _ = train_parser(one).parse_with_overrides(words)
    return get_task(flags.task).id


def check_places(words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Refuse a flag of the verb after the library, which train.py would not know.

    Args:
        words: The library and its arguments, or another script and its arguments.
        parser: The verb's parser.

    Raises:
        ConfigurationError: Naming the flag, and where it belongs.
    """
    library = library_of(words[0]) if words else None
    if library is None:
        return
    of_verb, of_training = (
        {option for action in one._actions for option in action.option_strings}
        for one in (parser, train_parser(get_library(library)))
    )
    for word in words[1:]:
        name = word.partition("=")[0]
        if name in of_verb - of_training:
            raise ConfigurationError(
                f"{name} is a flag of {parser.prog}, not of train.py: give it before {words[0]}."
            )


def script_words(given: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Return the script to launch, relative to the working tree, and its arguments.

    Raises:
        EnvlabError: If there is no script of that name in the snapshot, or it is one of ours and
            would refuse the arguments.
    """
    if not given:
        raise ConfigurationError(
            "Say what to train: envlab cluster launch --runs_on a,b rsl_rl --task=ID, or a script "
            "with its arguments."
        )
    first, *rest = given
    if first in libraries():
        first = SCRIPT.format(library=first)
    path = (Path.cwd() / first).resolve()
    name = str(path.relative_to(snapshot.root)) if path.is_relative_to(snapshot.root) else first
    if name not in snapshot.files and first in snapshot.files:
        name = first  # relative to the root, if started in a folder below it
    if name not in snapshot.files and given[0] in libraries():
        raise ConfigurationError(
            f"The hosts get the working tree {snapshot.root}, which has no {first}, as it is not "
            "envlab's. Run this command in your clone of envlab, with your own files in it."
        )
    if name not in snapshot.files:
        raise ConfigurationError(
            f"{first!r} is neither a library ({', '.join(libraries())}) nor a script of the "
            f"working tree {snapshot.root}: flags of launch come before it, and a new script must "
            "not be one that git ignores."
        )
    library = library_of(name)
    if library is not None:
        rest = _with_file(get_library(library), rest, snapshot)
        check_training(library, rest)
    return [name, *rest]


def is_experiment(file: str) -> bool:
    """Return whether a file defines an experiment rather than a script, without running it."""
    try:
        tree = ast.parse(Path(file).read_text())
    except (OSError, SyntaxError, ValueError):
        return False
    classes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
    methods = {part.name for one in classes for part in one.body if isinstance(part, _FUNCTION)}
    return not methods.isdisjoint(("training_pipeline", "tag"))


_FUNCTION = ast.FunctionDef


def _with_file(library: Library, words: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Return words with an experiment's file relative to the working tree's root."""
    flag = f"--{library.file_flag}="
    words = library.with_file_flag(words)
    for number, word in enumerate(words):
        if not word.startswith(flag):
            continue
        file, colon, name = word.removeprefix(flag).partition(":")
        path = Path(file).resolve()
        inside = str(path.relative_to(snapshot.root)) if path.is_relative_to(snapshot.root) else ""
        if inside not in snapshot.files:
            raise ConfigurationError(
                f"The experiment {file} is not in the working tree {snapshot.root}, which is what "
                "the hosts get. Copy it into that tree; git must not ignore it."
            )
        words[number] = f"{flag}{inside}{colon}{name}"
    return words


def for_node(words: Sequence[str], code: str, machine_id: int) -> list[str]:
    """Return a script and its arguments for a node.

    Args:
        words: The script, relative to the code, and its arguments.
        code: The node's folder with the code.
        machine_id: The node's number, for experiments.
    """
    script, *rest = words
    library = library_of(script)
    if library is None:
        return [f"{code}/{script}", *rest]
    flag = f"--{get_library(library).file_flag}="
    placed = [
        f"{flag}{code}/{word.removeprefix(flag)}" if word.startswith(flag) else word
        for word in rest
    ]
    if placed != rest:
        placed.append(f"--machine_id={machine_id}")
    return [f"{code}/{script}", *placed]


def for_several_hosts(words: Sequence[str], launch: str) -> list[str]:
    """Return a script and its arguments plus those that our own scripts need on several hosts."""
    if library_of(words[0]) is None:
        return list(words)
    distributed = [] if "--distributed" in words else ["--distributed"]
    run_id = [] if run_id_of(words) is not None else [f"--run_id={launch}"]
    return [*words, *distributed, *run_id]


def run_id_of(words: Sequence[str]) -> str | None:
    """Return the value of ``--run_id``, if it is given."""
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--run_id")
    return parser.parse_known_args(words)[0].run_id
