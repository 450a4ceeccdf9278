"""Mistakes of users, each answered with its own sentence: a table in place of a test each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from envlab.errors import ConfigurationError


def assert_refused(
    calls: Mapping[str, Callable[[], object]], error: type[Exception] = ConfigurationError
) -> None:
    """Check that each call is refused with the words of its key, a regular expression."""
    wrong = []
    for words, call in calls.items():
        try:
            call()
        except error as refusal:
            if not re.search(words, str(refusal)):
                wrong.append(f"{words}: {refusal}")
        else:
            wrong.append(f"{words}: not refused")
    assert wrong == []
