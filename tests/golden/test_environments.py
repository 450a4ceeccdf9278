"""Tasks observe and earn what they did when their values were recorded; see record.py."""

from __future__ import annotations

import pytest

from tests.archetypes import ARCHETYPES, OWN_CODE
from tests.golden.environments import (
    FOLDER,
    STEPS_PER_DIGEST,
    digests_of,
    numbers_of,
    read,
    roll_out,
)
from tests.golden.kind import kind_of_processor
from tests.golden.libraries import difference

TASKS = (*ARCHETYPES, *OWN_CODE)


def test_each_archetype_is_recorded_and_nothing_else():
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}.{suffix}" for name in TASKS for suffix in ("json", "yaml")
    }


@pytest.mark.parametrize("name", TASKS)
def test_an_archetype_observes_and_earns_what_it_did(name):
    golden, rows = read(name), roll_out(name)
    assert difference(golden["numbers"], numbers_of(rows)) <= golden["tolerance"]
    expected = golden["digests"].get(kind_of_processor())
    if expected is None:  # another kind of processor, or other versions of libraries
        return
    differing = [
        f"steps {1 + STEPS_PER_DIGEST * part} to {STEPS_PER_DIGEST * (part + 1)}"
        for part, (old, new) in enumerate(zip(expected, digests_of(rows), strict=True))
        if old != new
    ]
    assert differing == []
