"""Experiment files of AllenAct, each of another kind, written as its users write them: they train.

AllenAct's packages are those that are installed; what is missing is installed from PyPI for these
tests alone, as docs/from_allenact.md has it. BabyAI is not on PyPI.
"""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envlab.training.launch import train
from tests.launcher import ROOT
from tests.navigation.ddppo.test_allenact_packages import SMALL, clean, needs  # noqa: F401
from tests.trained import manifest_of, metrics_of, only_run

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
FILES = Path(__file__).parent / "peer_files"
PACKAGES = {
    "allenact": "allenact==0.5.4",
    "allenact_plugins": "allenact_plugins==0.5.4",
    "attr": "attrs",
    "cv2": "opencv-python-headless",
    "gym_minigrid": "gym-minigrid==1.0.3",
    "torchvision": "torchvision",
}
INSTALLING_S = 240.0


@pytest.fixture(scope="module")
def _packages(clean: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # noqa: F811
    """Make AllenAct's packages importable; skip where PyPI cannot be reached."""
    missing = [PACKAGES[name] for name in PACKAGES if importlib.util.find_spec(name) is None]
    folder = tmp_path_factory.mktemp("packages")
    if missing:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries=1"]
        words = [*pip, f"--constraint={ROOT / 'constraints.txt'}", f"--target={folder}", *missing]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALLING_S)
        except subprocess.TimeoutExpired:
            pytest.skip(f"PyPI had not given {', '.join(missing)} after {INSTALLING_S:.0f} s")
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            pytest.skip(f"pip cannot install {', '.join(missing)}: {errors[-1:]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
    for name in ("poles", "rooms"):  # which experiments import from beside them
        sys.modules.pop(name, None)


def trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, *words: str
) -> tuple[Path, list[dict[str, Any]]]:
    """Train an experiment to its end; return its run directory and its records."""
    monkeypatch.chdir(folder)
    assert train("ddppo", [str(FILES / f"{name}.py"), *SMALL, *words]) == 0
    run = only_run(folder)
    records = metrics_of(run)
    assert manifest_of(run)["status"] == "finished"
    for record in records:
        losses = record["losses"].values()
        assert losses
        assert all(loss is not None and math.isfinite(loss) for loss in losses)
    return run, records


def parts(record: dict[str, Any]) -> set[str]:
    """Return which of the experiment's losses a record has."""
    return {name.partition("/")[0] for name in record["losses"]}


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize(
    ("name", "frames", "losses"),
    [
        pytest.param("pole_ppo", 384, [{"ppo"}] * 6, id="PPO"),
        pytest.param("pole_stages", 384, [{"value"}] * 2 + [{"ppo"}] * 2, id="stages"),
        pytest.param("pole_groups", 384, [{"groups"}] * 6, id="groups of actions"),
        pytest.param("pole_levels", 384, [{"imitation", "ppo"}] * 6, id="actions of levels"),
        pytest.param("pole_preprocessor", 256, [{"ppo"}] * 4, id="preprocessor"),
        pytest.param("gym_continuous", 256, [{"ppo"}] * 2, id="Box2D"),
        pytest.param("room_a2c", 256, [{"a2c"}] * 4, id="A2C"),
        pytest.param("room_bc", 512, [{"imitation"}] * 8, id="behaviour cloning"),
        pytest.param("room_dagger", 384, [{"imitation"}] * 4 + [{"ppo"}] * 2, id="DAgger"),
        pytest.param("room_mixed", 256, [{"ppo", "imitation"}] * 4, id="PPO with imitation"),
    ],
)
def test_an_experiment_trains_as_it_says(
    name: str,
    frames: int,
    losses: list[set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    run, records = trained(tmp_path, monkeypatch, name)
    print(run, [dict(one, losses=None) for one in records][-1], records[-1]["losses"].keys())
    assert records[-1]["frames"] == frames
    assert [parts(record) - {"Loss", "Policy"} for record in records] == losses
