"""The command lines of guests: mistakes are answered as the core's are, and words are completed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_completion import completed
from tests.test_mistakes import ask, check

MISTAKES = {
    "dashboard nowhere": "There is no folder 'nowhere'",
    "lab list nowhere": "nowhere",
    "cluster luanch": "Did you mean launch",
    "cluster launch rsl_rl --task=Isaac-Ant": "--runs_on",
    "cluster launch --hosts=none.yaml rsl_rl --task=Isaac-Ant": "none.yaml",
    "cluster slurm --nodes=two rsl_rl --task=Isaac-Ant": "'two'",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    return ask(tmp_path_factory.mktemp("mistakes"), MISTAKES)


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_with_one_sentence_at_once(answers, line: str):
    check(answers[line], MISTAKES[line])
    assert not answers[line]["loads_torch"]


def test_a_shell_offers_the_words_that_may_follow(tmp_path: Path):
    words = completed(tmp_path, "envlab cluster l")
    assert "launch" in words
    assert "kill" not in words
