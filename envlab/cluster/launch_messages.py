"""What to train, as ``launch`` sends it to the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envlab.cluster.snapshot import Snapshot
from envlab.cluster.training_words import LIBRARIES, SCRIPT, check_training, library_of
from envlab.errors import ConfigurationError


def train_words(given: Sequence[str], snapshot: Snapshot) -> list[str]:
    """Return the script, relative to the working tree, and its arguments.

    Raises:
        EnvlabError: If there is no script of that name in the snapshot, or it is one of ours and
            would refuse the arguments.
    """
    words = list(given[1:] if given[:1] == ["--"] else given)
    if not words:
        raise ConfigurationError(
            "Say what to train: envlab cluster launch --runs_on a,b rsl_rl --task=ID, or a script "
            "with its arguments."
        )
    if words[0] in LIBRARIES:
        words[0] = SCRIPT.format(library=words[0])
    path = (Path.cwd() / words[0]).resolve()
    name = str(path.relative_to(snapshot.root)) if path.is_relative_to(snapshot.root) else words[0]
    if name not in snapshot.files and words[0] in snapshot.files:
        name = words[0]  # as seen from the root, from a folder below it
    if name not in snapshot.files:
        raise ConfigurationError(
            f"{words[0]!r} is neither a library ({', '.join(LIBRARIES)}) nor a script of the "
            f"working tree {snapshot.root}: flags of launch come before it, and a new script must "
            "not be one that git ignores."
        )
    library = library_of(name)
    if library is not None:
        check_training(library, words[1:])
    return [name, *words[1:]]


def complete(words: Sequence[str], launch: str) -> list[str]:
    """Return the words with what our own scripts need on several hosts."""
    found = list(words)
    if library_of(words[0]) is not None:
        if "--distributed" not in words:
            found.append("--distributed")
        if run_id_of(words) is None:
            found.append(f"--run_id={launch}")
    return found


def run_id_of(words: Sequence[str]) -> str | None:
    """Return the value of ``--run_id``, if it is given."""
    for index, word in enumerate(words):
        if word.startswith("--run_id="):
            return word.partition("=")[2]
        if word == "--run_id" and index + 1 < len(words):
            return words[index + 1]
    return None
