"""Accelerate's processes: as many as were launched, or the difference is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envlab.errors import LaunchError
from envlab_populations.agilerl.accelerator import make_accelerator
from tests.launcher import ROOT, run

SCRIPTS = ROOT / "scripts/reinforcement_learning/evolution"
SHORT = ["--task=gym:CartPole-v1", "--max_episodes=2", "--max_steps=40", "--evo_epochs=1"]

accelerate = pytest.importorskip(
    "accelerate", reason="needs accelerate: pip install -e '.[accelerate]'"
)


@pytest.fixture(autouse=True)
def _fresh_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Accelerate keeps its findings about a process for as long as that lives."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    yield
    # private: Accelerate's own tests reset it like this
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.long
def test_accelerates_own_launcher_starts_several_processes(tmp_path: Path):
    script, config = SCRIPTS / "demo_online_distributed.py", SCRIPTS / "accelerate.yaml"
    words = ["accelerate", "launch", "--config_file", config, "--num_processes=2", script, *SHORT]
    code, output = run(words, tmp_path)
    assert code == 0, output
    assert "Training on 2 x cpu" in output


def test_a_launch_that_starts_one_process_in_silence_is_noticed(monkeypatch, caplog):
    """Accelerate launch --cpu --num_processes 2."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    assert make_accelerator().num_processes == 1
    assert "To start two: accelerate launch --config_file scripts/" in caplog.text


def test_processes_that_accelerate_does_not_see_are_missed(monkeypatch: pytest.MonkeyPatch):
    make_accelerator()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(LaunchError, match="2 processes were launched, but Accelerate sees 1"):
        make_accelerator()
