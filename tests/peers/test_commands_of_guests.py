"""The command lines of guests are completed as the core's are."""

from __future__ import annotations

from pathlib import Path

from tests.test_completion import completed


def test_a_shell_offers_the_words_that_may_follow(tmp_path: Path):
    words = completed(tmp_path, "envlab cluster l")
    assert "launch" in words
    assert "kill" not in words
