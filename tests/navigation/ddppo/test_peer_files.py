"""Experiment files in the style of AllenAct's users, each of a different kind, all train.

Installed packages of AllenAct are used; missing ones are installed from PyPI for these tests
alone, as docs/from_allenact.md describes. BabyAI is not on PyPI, and not tried here.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envlab.training.launch import train
from tests.navigation.ddppo.test_allenact_packages import SMALL, clean  # noqa: F401
from tests.trained import manifest_of, metrics_of, only_run
from tests.wheels import install

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


@pytest.fixture(scope="module")
def _packages(clean: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # noqa: F811
    """Make AllenAct's packages importable; skip where PyPI cannot be reached."""
    missing = [PACKAGES[name] for name in PACKAGES if importlib.util.find_spec(name) is None]
    folder = tmp_path_factory.mktemp("packages")
    if missing:
        install(folder, *missing)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
    sys.modules.pop("rooms", None)  # which experiments import from their own folder


def trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, *words: str
) -> tuple[Path, list[dict[str, Any]]]:
    """Train an experiment to its end; return its run directory and its records."""
    monkeypatch.chdir(folder)
    assert train("ddppo", [str(FILES / name), *SMALL, *words]) == 0
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
    return {name.partition("/")[0] for name in record["losses"]} - {"grad_norm"}


@pytest.mark.usefixtures("_packages")
@pytest.mark.parametrize(
    ("name", "frames", "losses"),
    [
        ("poles.py:PoleLevels", 384, [{"imitation", "ppo"}] * 6),
        ("poles.py:PolePreprocessor", 384, [{"value"}] * 2 + [{"ppo"}] * 2),
        ("poles.py:PoleAuxiliary", 256, [{"ppo", "inverse", "cpca", "entropy"}] * 4),
        ("gym_continuous.py", 256, [{"ppo"}] * 2),
        ("rooms.py:RoomA2C", 256, [{"a2c"}] * 4),
    ],
)
def test_an_experiment_learns_from_its_losses(
    name: str, frames: int, losses: list[set[str]], tmp_path: Path, monkeypatch
):
    _, records = trained(tmp_path, monkeypatch, name)
    assert records[-1]["frames"] == frames
    assert [parts(record) for record in records] == losses


@pytest.mark.usefixtures("_packages")
def test_an_expert_acts_for_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _, records = trained(tmp_path, monkeypatch, "room_dagger.py")
    shares = [record["details"]["teacher_forcing"] for record in records]
    assert shares == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert records[-1]["frames"] == 64 * 6
    assert all("imitation/expert_cross_entropy" in record["losses"] for record in records)
    assert [parts(record) for record in records] == [{"imitation"}] * 4 + [{"imitation", "ppo"}] * 2


@pytest.mark.usefixtures("_packages")
def test_a_learning_rate_falls_in_lines_with_validation(tmp_path: Path, monkeypatch):
    run, records = trained(tmp_path, monkeypatch, "poles.py:PolePPO")
    # From 1 to a half in 128 steps, and to nothing in 256 more; as rollouts of 64 begin.
    factors = [1.0, 0.75, 0.5, 0.375, 0.25, 0.125]
    assert [one["learning_rate"] for one in records] == pytest.approx([0.01 * f for f in factors])
    lines = (run / "validation.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["frames"] == records[-1]["frames"] == 384


@pytest.mark.usefixtures("_packages")
def test_arguments_make_an_experiment_one_of_mujoco(tmp_path: Path, monkeypatch):
    given = json.dumps({"name": "HalfCheetah-v2", "actions": 6})
    run, records = trained(tmp_path, monkeypatch, "gym_continuous.py", f"--config_kwargs={given}")
    assert "Gym-HalfCheetah-v2" in str(run)
    assert records[-1]["frames"] == 256
    assert records[-1]["learning_rate"] == pytest.approx(1e-3 * 0.75)
