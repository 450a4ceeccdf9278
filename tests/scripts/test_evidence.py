"""The experiments of this repository, and the page of their records."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from envlab.tools.evidence.command import PAGE, main, page
from envlab.tools.evidence.experiment import names, read
from envlab.tools.evidence.runner import check_seeds
from tests.launcher import ROOT


def test_the_page_follows_from_the_records():
    folder = ROOT / "scripts/evidence"
    experiments = [read(name, folder) for name in names(folder)]
    assert (ROOT / PAGE).read_text() == page(experiments, ROOT / "docs/evidence")


@pytest.mark.parametrize("name", names(ROOT / "scripts/evidence"))
def test_no_seed_was_added_to_records_unsaid(name: str):
    experiment = read(name, ROOT / "scripts/evidence")
    check_seeds(experiment, ROOT / "docs/evidence")
    planned = {
        json.loads(path.read_text())["seeds"]
        for path in (ROOT / "docs/evidence" / name).glob("*/*/run.json")
    }
    assert planned <= {experiment.seeds, experiment.first_seeds}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", names(ROOT / "scripts/evidence"))
def test_each_experiment_runs_in_short(name: str, tmp_path: Path):
    folder = ROOT / "scripts/evidence"
    experiment = read(name, folder)
    programs = [contender.program() for contender in experiment.contenders]
    for program, variable in (("agilerl_dqn", "AGILERL_PYTHON"), ("legged_gym_a1", "LEGGED_GYM")):
        if f"{program}.py" in programs and variable not in os.environ:
            pytest.skip(f"needs {variable}; see scripts/evidence/{program}.py")
    frames = experiment.frames // 10
    places = [f"--records={tmp_path / 'records'}", f"--logs={tmp_path / 'logs'}"]
    words = ["run", name, f"--folder={folder}", "--seeds=1", f"--frames={frames}", *places]
    assert main(words) == 0
