"""The words that say what to train, looked at before they are sent to where they run."""

from __future__ import annotations

from collections.abc import Sequence

from envlab.registry import get_task
from envlab.rl.arguments import train_parser

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
