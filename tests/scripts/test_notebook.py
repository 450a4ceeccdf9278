"""docs/notebook.ipynb runs from its first cell to its last, with all its outputs."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from envlab.sim.opengl import opengl_problems
from tests.launcher import ROOT
from tests.scripts.of_scripts import load


@pytest.fixture(scope="module")
def ran() -> Any:
    """Return the cells after a run of all of them."""
    if opengl_problems():
        pytest.skip(f"no picture can be drawn here: {opengl_problems()}")
    module = load("documentation/notebook")
    return module.run(module.NOTEBOOK).cells


def of_kind(cells: Any, kind: str) -> list[str]:
    """Return the outputs of cells of a media type."""
    return [
        output.data[kind]
        for cell in cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_it_trains_a_policy_that_balances_and_shows_pictures(ran: Any) -> None:
    texts = of_kind(ran, "text/plain")
    (trained,) = (text for text in texts if text.startswith("<TrainingRun"))
    assert float(trained.rpartition(" ")[2].rstrip(">")) > 4.5  # of 5
    check(ran)
    assert texts[-1] == "True"  # the clip exists


def check(cells: Any) -> None:
    """Require outputs of no one machine, with all pictures, which GitHub shows."""
    outputs = [one for cell in cells for one in cell.get("outputs", [])]
    # A warning, which a slow machine brings forth, names the file it comes from.
    shown = "".join(str(one) for one in outputs if one.get("name") != "stderr")
    assert "/tmp" not in shown
    assert "token=" not in shown
    assert len(of_kind(cells, "image/png")) == 3


def test_nothing_in_it_is_of_one_machine() -> None:
    check(nbformat.read(ROOT / "docs/notebook.ipynb", as_version=4).cells)
