"""Exceptions that envlab raises on purpose.

Every error that a user can cause derives from :class:`EnvlabError`. The command line prints such an
error as one sentence and exits with code 2, without a traceback; see
:func:`envlab.distributed.program.guarded`.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable


class EnvlabError(Exception):
    """Base of all errors a user can cause; its text has setting, value, expectation, next step."""

    same_on_all_ranks = True
    """Whether every rank raises the same error, so that one of them may report it for all."""
    exit_code = 2
    """Exit code of the command line: 2 for bad input."""

    def __init__(self, message: str = "", *, same_on_all_ranks: bool | None = None) -> None:
        super().__init__(message)
        if same_on_all_ranks is not None:
            self.same_on_all_ranks = same_on_all_ranks


class UnknownTaskError(EnvlabError):
    """No registered task has this id."""


class ConfigurationError(EnvlabError):
    """A configuration key, value or flag is wrong."""


class DeviceError(EnvlabError):
    """The requested device does not exist or cannot be shared this way."""


class LaunchError(EnvlabError):
    """The processes were not launched as the flags say."""


class ResultLostError(EnvlabError):
    """A run finished, but its last checkpoint could not be written."""

    exit_code = 1


class CheckpointError(EnvlabError):
    """A checkpoint is missing, truncated, or belongs to something else."""


class RunDirectoryError(EnvlabError):
    """A run directory cannot be made, written or found."""


class SimulationError(EnvlabError):
    """The simulation cannot be built or has failed in too many environments."""

    same_on_all_ranks = False


class RankDivergenceError(EnvlabError):
    """Ranks that must agree hold different values, or environments that must differ are equal."""


class TermError(EnvlabError):
    """A term of a task's configuration raised an exception."""

    same_on_all_ranks = False


def name_term(error: Exception, kind: str, name: str) -> None:
    """Note in an exception the term of a task that raised it, and the place in its file.

    A caller catches the exception itself; the command line prints only the note.
    """
    if isinstance(error, EnvlabError) or hasattr(error, "envlab_term"):
        return
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first frame is the caller's
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    where = ""
    if own:
        where = f" in {own[-1].filename}, line {own[-1].lineno}: {own[-1].line}"
    note = f"The {kind} term {name!r} raised {type(error).__name__}{where}"
    error.envlab_term = note  # type: ignore[attr-defined]
    error.add_note(note)


def term_error(error: Exception) -> TermError | None:
    """Return the error to report for an exception from a term, None for any other."""
    note = getattr(error, "envlab_term", None)
    return None if note is None else TermError(f"{note}\n{error}")


def nearest(word: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """Return up to ``count`` candidates that look like ``word``, best first."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), by_lower, n=count, cutoff=0.6)
    return [by_lower[match] for match in matches]


def did_you_mean(word: str, candidates: Iterable[str], count: int = 3) -> str:
    """Return ``" Did you mean a, b?"`` for the nearest candidates, or ``""`` if none is near."""
    matches = nearest(word, candidates, count)
    return f" Did you mean {', '.join(matches)}?" if matches else ""
