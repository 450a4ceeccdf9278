"""Each way to train learns what it did when its values were recorded; see record.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden.kind import kind_of_processor
from tests.golden.libraries import FOLDER, WAYS, difference, digest_of, read, train_all

pytestmark = pytest.mark.slow
BY_DAY = ("rsl_rl", "rl_games", "skrl_ppo", "fast_sac")
"""What the others learn is also held by runs of old, which resume in ``test_old_runs.py``."""


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> dict[str, dict[str, Any]]:
    names = WAYS if pytestconfig.getoption("--all") else BY_DAY
    return train_all(tmp_path_factory.mktemp("golden"), names)


def test_each_way_is_recorded_and_nothing_else():
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}.{suffix}" for name in WAYS for suffix in ("json", "yaml")
    }


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.long]) for name in WAYS],
)
def test_a_way_learns_what_it_did(found, name):
    golden = read(name)
    assert difference(golden["values"], found[name]) <= golden["tolerance"]
    expected = golden["digests"].get(kind_of_processor())
    # None: another kind of processor, or other versions of libraries. Several: processors of one
    # name whose caches differ, by which a library divides its sums (seen for fast_sac: 5e-8).
    assert expected is None or digest_of(found[name]) in expected
