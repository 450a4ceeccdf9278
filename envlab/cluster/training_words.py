"""The words that say what to train, looked at before they are sent to where they run."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from envlab.errors import ConfigurationError
from envlab.registry import get_task
from envlab.rl.command.arguments import train_parser

LIBRARIES = ("rsl_rl", "rl_games", "skrl")
SCRIPT = "scripts/reinforcement_learning/{library}/train.py"


def library_of(first: str) -> str | None:
    """Return the library whose training the first word names, by its name or its script's path."""
    if first in LIBRARIES:
        return first
    return next((one for one in LIBRARIES if first.endswith(SCRIPT.format(library=one))), None)


def check_training(library: str, words: Sequence[str]) -> str:
    """Refuse what train.py would refuse, but minutes later and elsewhere; return the task's id.

    Raises:
        EnvlabError: For an unknown flag or task, or a word that is no override.
    """
    flags, _ = train_parser(library).parse_with_overrides(words)
    return get_task(flags.task).id


def check_places(words: Sequence[str], parser: ArgumentParser) -> None:
    """Refuse a flag of the verb itself behind the library, where train.py would not know it.

    Args:
        words: The library and what comes after it, or another script and its own.
        parser: The verb's.

    Raises:
        ConfigurationError: Naming the flag, and where it belongs.
    """
    library = library_of(words[0]) if words else None
    if library is None:
        return
    known = [
        {option for action in one._actions for option in action.option_strings}
        for one in (parser, train_parser(library))
    ]
    for word in words[1:]:
        name = word.partition("=")[0]
        if name in known[0] - known[1]:
            raise ConfigurationError(
                f"{name} is a flag of {parser.prog}, not of train.py: give it before {words[0]}."
            )
