"""The comparison with peers: its arithmetic by hand, its tables' places, and bad input."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from envlab.errors import ConfigurationError
from tests.launcher import ROOT


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/benchmarks/compare_peers.py"))


def test_each_table_has_one_place_and_is_of_medians(script, tmp_path: Path, monkeypatch):
    for name in script["COMPARISONS"]:
        mark = f"<!-- compare_peers.py {name} -->\n"
        assert [page.read_text().count(mark) for page in script["PAGES"]].count(1) == 1
    ours, theirs = script["COMPARISONS"]["skrl"]["Isaac-Ant-v0, 2048 environments"]
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- compare_peers.py skrl -->\nold\n<!-- until here -->\nb\n")
    for contender, rates in ((ours, [30.0, 1200.0, 3e6]), (theirs, [400.0, 1.0, 800.0])):
        contender.rates, contender.cpu_rates = rates, [2.0 * rate for rate in rates]
    monkeypatch.setitem(script["write"].__globals__, "PAGES", [page])
    script["write"]("skrl", script["table"]("steps", {"Ant": [ours, theirs]}))
    before, *table, after, end = page.read_text().splitlines()[1:]
    assert (before, after, end) == ("<!-- compare_peers.py skrl -->", "<!-- until here -->", "b")
    assert table[2:] == [
        "| Ant | envlab | 1,200 |  | 2,400 |  |",
        "|  | skrl, its own runner | 400 | 3.00 | 800 | 3.00 |",
    ]


def test_a_contender_that_ends_is_named_with_its_last_words(script):
    contender = script["Contender"]("nobody", "no_such_function")
    with (
        pytest.raises(ConfigurationError, match=r"nobody ended early(.|\n)*StopIteration"),
        script["started"](contender, Path(sys.executable)) as worker,
    ):
        worker.run(0.1)
