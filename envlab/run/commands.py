"""Commands to paste: those that started a run, play its checkpoint, or resume it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envlab.distributed.ranks import launcher_words
from envlab.libraries import libraries

_ORIGINS = ("algorithm", "ml_framework")
"""Flags that choose how a library trains; a manifest has those that its library knows."""


def typed(words: Sequence[str]) -> str:
    """Return a command as it can be typed here: through envlab.sh, if that started us."""
    prefix = os.environ.get("ENVLAB_SH")  # set by envlab.sh, which need not be activated
    return shlex.join([*([prefix] if prefix else []), *words])


def started_with() -> str:
    """Return the command that started this run, with the launcher of its processes."""
    own = sys.orig_argv
    if own[len(own) - len(sys.argv) + 1 :] != sys.argv[1:]:  # something else called our main
        own = [sys.executable, *sys.argv]
    program, *rest = launcher_words() or own
    if rest and Path(rest[0]).name == "envlab":  # the installed command
        return typed(["envlab", *rest[1:]])
    return typed([Path(program).name, *rest])


def play_words(manifest: Mapping[str, Any], checkpoint: Path) -> list[str]:
    """Return the command that plays a checkpoint; empty if its library is not installed."""
    library, task = manifest.get("library"), manifest.get("task")
    if library not in libraries() or not task:
        return []
    chosen = [f"--task={task}", f"--checkpoint={short(checkpoint)}"]
    return ["envlab", "play", *library_words(manifest), *chosen]


def library_words(manifest: Mapping[str, Any]) -> list[str]:
    """Return the library and algorithm of a run, as the command line calls them."""
    origin = [f"--{name}={manifest[name]}" for name in _ORIGINS if manifest.get(name)]
    return [str(manifest.get("library")), *origin]


def resume_words(manifest: Mapping[str, Any], checkpoint: Path) -> list[str]:
    """Return the command that resumes a run: its own, and the checkpoint to resume from.

    It is empty for a run that envlab's own launcher cannot start again: on several
    nodes. Its words are not trusted: they reach only envlab's own command line,
    and no shell. A run of a sweep is resumed alone, with its own values.
    """
    library, world = manifest.get("library"), manifest.get("world") or {}
    count = world.get("size") or 1
    is_ours = count == 1 or world.get("local_size") == count
    try:
        words = shlex.split(str(manifest.get("command") or ""))[2:]
    except ValueError:  # an open quotation mark
        return []
    if words[:1] == ["train"]:
        words = words[1:]
    if words[:1] == [library]:
        words = words[1:]
    if library not in libraries() or not is_ours or not words or words[0][:2] != "--":
        return []
    replaced = {"--checkpoint", "--load_run", "--rl_library", "--library"}
    dropped = ("--resume", "-m", "--multirun")
    kept = [
        _of_one_run(word, manifest) for word in _without(words, replaced) if word not in dropped
    ]
    if count > 1:
        kept = [f"--nproc={count}", *(word for word in kept if word != "--distributed")]
    return ["envlab", "train", library, *kept, "--resume", f"--checkpoint={short(checkpoint)}"]


def _of_one_run(word: str, manifest: Mapping[str, Any]) -> str:
    """Return a word of a sweep's command with the value that it has in a run of the sweep."""
    key, found, _ = word.partition("=")
    swept = manifest.get("swept")
    value = swept.get(key.lstrip("+~")) if found and isinstance(swept, dict) else None
    return word if value is None else f"{key}={value}"


def _without(words: list[str], flags: set[str]) -> Iterator[str]:
    """Yield words without some flags and their values, in either spelling."""
    is_value = False
    for word in words:
        if not is_value and word.partition("=")[0] not in flags:
            yield word
        is_value = word in flags


def short(path: Path) -> str:
    """Return a path as one types it here."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
