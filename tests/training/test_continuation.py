"""A resumed run keeps its environments, on any number of processes that can share them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.errors import ConfigurationError
from envlab.training.continuation import (
    check_total,
    describe_resume,
    parts_of,
    resume_mode,
    share_of_total,
)


def saved(world_size: int = 2, num_envs: int = 3, **values: Any) -> dict[str, Any]:
    ranks = [
        {"env": {"ids": torch.arange(rank * num_envs, (rank + 1) * num_envs), "tick": rank}}
        for rank in range(world_size)
    ]
    facts = {"world_size": world_size, "num_envs": num_envs, "seed": 7, "ranks": ranks, "model": {}}
    return facts | values


@pytest.mark.parametrize(
    ("world_size", "num_envs", "seed", "deals", "how"),
    [
        (2, 3, 7, True, "as it was"),
        (1, 6, 7, True, "dealt"),
        (6, 1, 7, True, "dealt"),
        (1, 6, 7, False, "anew"),
        (2, 3, 8, True, "anew"),
        (1, 6, 8, True, "anew"),
    ],
)
def test_how_a_run_goes_on(world_size: int, num_envs: int, seed: int, deals: bool, how: str):
    assert resume_mode(saved(), world_size, num_envs, seed, deals=deals) == how


def test_it_says_what_goes_on():
    told = describe_resume(saved(), "dealt", 1, 6, resumes_exactly=True)
    assert told == (
        "on 1 process of 6 environments instead of 2 of 3: environments, memories and counters "
        "continue; draws of actions and the order of minibatches differ"
    )
    told = describe_resume(saved(), "dealt", 1, 6, resumes_exactly=False)
    assert "episodes start fresh, because Gymnasium's environments cannot be saved" in told
    told = describe_resume(saved(), "anew", 1, 6, resumes_exactly=True)
    assert "saved on 2 processes of 3 environments with seed 7" in told


@pytest.mark.parametrize(("size", "nearest"), [(4, "3 or 6"), (5, "3 or 6"), (7, "6")])
def test_processes_that_cannot_share_the_environments_are_refused(size: int, nearest: str):
    words = f"has 6 environments, which {size} processes cannot share equally. Go on with {nearest}"
    with pytest.raises(ConfigurationError, match=words):
        share_of_total(saved(), size)


def test_another_total_is_refused_with_both_and_repeated_words_are_not():
    for again in (6, 3, 1):  # of this process; of the last start; of the first, on six
        check_total(saved(scaled_for=6), 1, {"--num_envs": again})
    words = "--num_envs is 4, which makes 4 environments on 1 process, but the run has 6 in all"
    with pytest.raises(ConfigurationError, match=words):
        check_total(saved(), 1, {"--num_envs": 4})


def test_each_process_gets_the_environments_that_it_needs():
    found = parts_of(saved(), 3)
    ids = [[part["env"]["ids"] for part in one["ranks"]] for one in found]
    assert [[one is not None for one in row] for row in ids] == [
        [True, False],
        [True, True],
        [False, True],
    ]
    assert [[part["env"]["tick"] for part in one["ranks"]] for one in found] == [[0, 1]] * 3
