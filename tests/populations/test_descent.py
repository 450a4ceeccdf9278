"""The ancestry of members, read from a run and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envlab.cli import main
from envlab_populations.descent import descent_of_fittest, draw, read


def member(index: int, parent: int | None, fitness: float, lr: float = 1e-3) -> dict[str, Any]:
    values = {"index": index, "parent": parent, "mutation": "lr", "fitness": fitness}
    return values | {"hyperparameters": {"learning_rate": lr}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Member 1 stays for a generation; 5, the fittest at the end, is its grandchild."""
    generations = [
        [member(0, None, 1.0), member(1, None, 3.0)],
        [member(1, None, 2.0), member(2, 0, 9.0, 1e-2)],
        [member(3, 1, 4.0), member(4, 2, 1.0, 1e-4)],
        [member(3, 1, 5.0), member(5, 3, 7.0)],
    ]
    lineage = [
        {"generation": n, "frames": 100 * n, "members": members}
        for n, members in enumerate(generations, 1)
    ]
    (tmp_path / "lineage.json").write_text(json.dumps(lineage))
    return tmp_path


def test_the_descent_of_the_fittest_goes_back_to_the_first_generation(run: Path):
    assert [point.index for point in descent_of_fittest(read(run))] == [1, 1, 3, 5]


def test_a_line_leads_from_each_member_to_its_parent(run: Path):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e '.[compare]'")
    generations = read(run)
    figure = draw(generations, descent_of_fittest(generations))
    fitness, rate = figure.axes
    lines = [list(line.get_ydata()) for line in fitness.get_lines() if len(line.get_xdata()) == 2]
    assert lines == [[3.0, 2.0], [1.0, 9.0], [2.0, 4.0], [9.0, 1.0], [4.0, 5.0], [4.0, 7.0]]
    assert rate.get_yscale() == "log"


def test_the_command_prints_and_draws(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e '.[compare]'")
    monkeypatch.chdir(run)
    assert main(["lineage", "."]) == 0
    assert "generation 4: member 5, lr, fitness 7.00" in capsys.readouterr().out
    assert (run / "lineage.png").stat().st_size > 1000
