"""Tables of wrong inputs, each of which a function must refuse in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from envlab.errors import EnvlabError


def check_refusals(
    act: Callable[..., Any],
    rows: Iterable[tuple[Any, ...]],
    error: type[Exception] = EnvlabError,
) -> None:
    """Require that each row's input is refused; name all rows that are not.

    Args:
        act: Called with a row's values, except the last.
        rows: Arguments, and last an expression that the sentence must match.
        error: What must be raised.
    """
    wrong = []
    for *arguments, words in rows:
        try:
            act(*arguments)
        except error as refusal:
            if re.search(words, str(refusal)) and "\n" not in str(refusal):
                continue
            wrong.append(f"{words}: {refusal}")
        else:
            wrong.append(f"{words}: not refused")
    assert not wrong, "\n".join(wrong)
