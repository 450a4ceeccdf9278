"""Runs that earlier code wrote play as they did then, and end as they would have ended then.

``tests/data/runs`` has a run of two iterations on two ranks for each way to train, by 50598b16, and
of members that ranks train apart, by 0.2.0. Next to it,
``learned.json`` has the actions of that code's policy, and the result of that code's own resume to
the fourth iteration. They are never recorded again: the reader under test is the only reader of old
runs.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import envlab
from envlab.run.commands import library_words
from tests.golden.kind import kind_of_processor
from tests.golden.libraries import FLAGS, difference, launch, learned
from tests.launcher import run
from tests.trained import metrics_of

DATA = Path(__file__).parents[1] / "data/runs"
RUNS = {path.parents[1].name: path.parent for path in sorted(DATA.glob("*/*/*/learned.json"))}
"""Their directories by experiment."""
JAX = "skrl_jax"
RECORDED_ON = json.loads((DATA / "recorded_on.json").read_text())
"""The kind of processor on which the bits are the same."""
TOLERANCE = 1e-3


def resumed(old: Path) -> tuple[str, str, list[str]]:
    """Return the job that resumes a run to its fourth iteration."""
    manifest = json.loads((old / "run.json").read_text())
    library, *choices = library_words(manifest)
    words = [*choices, f"--task={manifest['task']}", f"--experiment_name={old.parent.name}"]
    return old.parent.name, library, [*FLAGS, *words, "--resume", "--max_iterations=4"]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The runs that resume from the old ones, by experiment."""
    folder = tmp_path_factory.mktemp("old")
    for name, old in RUNS.items():
        shutil.copytree(old, folder / name / "logs" / old.relative_to(DATA))
    launch(folder, (resumed(RUNS[name]) for name in RUNS if name != JAX))
    return {name: end_in(folder, name) for name in RUNS if name != JAX}


def end_in(folder: Path, name: str) -> Path:
    """Return the run in a folder that is not the old one."""
    (run,) = (one for one in (folder / name).glob("logs/*/*/*") if one.name != RUNS[name].name)
    return run


@pytest.mark.parametrize("name", RUNS)
def test_an_old_run_plays_as_it_did(name: str):
    check(learned(RUNS[name]), "played", RUNS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUNS if name != JAX])
def test_an_old_run_resumes_to_the_end_that_it_had(name: str, ends):
    check(learned(ends[name]), "resumed", RUNS[name])


@pytest.mark.long  # JAX needs its own launcher, whose processes each import it
def test_an_old_run_of_jax_resumes_to_the_end_that_it_had(tmp_path: Path):
    old = RUNS[JAX]
    shutil.copytree(old, tmp_path / JAX / "logs" / old.relative_to(DATA))
    _, library, words = resumed(old)
    command = [sys.executable, "-m", "envlab", "train", library, "--nproc=2", *words]
    code, output = run([word for word in command if word != "--distributed"], tmp_path / JAX)
    assert code == 0, output
    check(learned(end_in(tmp_path, JAX)), "resumed", old)


def check(found: dict[str, Any], what: str, old: Path) -> None:
    expected = json.loads((old / "learned.json").read_text())[what]
    # fast_sac's sums differ even between processors of one name; see test_libraries.py.
    if kind_of_processor() == RECORDED_ON and old.parent.name != "fast_sac":
        assert found == expected
    assert difference(expected, found) <= TOLERANCE


def test_an_old_trial_of_hogwild_plays():
    (trial,) = (DATA / "hogwild/small").iterdir()
    policy = envlab.load_policy(trial, num_envs=2, device="cpu", seed=3)
    assert policy(policy.env.reset(seed=3)[0]).shape[0] == 2


@pytest.mark.long  # each of its sessions imports all it needs
def test_an_old_trial_of_hogwild_resumes(tmp_path: Path):
    """Its sessions take turns by chance, so that their numbers are not compared."""
    shutil.copytree(DATA / "hogwild", tmp_path / "logs/hogwild", symlinks=True)
    (trial,) = (tmp_path / "logs/hogwild/small").iterdir()
    lab = [sys.executable, "-m", "envlab", "lab", "run", str(DATA / "hogwild/small.json"), "small"]
    code, output = run([*lab, "train@latest", "-s", "env.max_frame=512"], tmp_path)
    assert code == 0, output
    for session in ("sessions/0", "sessions/1"):
        iterations = [record["iteration"] for record in metrics_of(trial / session)]
        assert iterations == list(range(1, 9)), output
