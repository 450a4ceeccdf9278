"""The scaling benchmark: its arithmetic by hand, and one small run of everything."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.launcher import ROOT, Launch
from tests.scripts.of_scripts import load

SCRIPT = ROOT / "scripts/benchmarks/scaling.py"


@pytest.fixture(scope="module")
def scaling() -> ModuleType:
    return load("benchmarks/scaling")


def iteration(seconds: float, collectives: list[float], gradients: list[float]) -> dict[str, Any]:
    shares = {"seconds": 1.0, "cpu_s": 0.75, "collect_s": 0.25, "learn_s": 0.5}
    times = {name: share * seconds for name, share in shares.items()}
    return {**times, "collectives": collectives, "gradients": gradients, "audit": [0.125]}


def test_the_shortest_time_of_a_collective_is_the_exchange_and_the_rest_is_waiting(scaling):
    ranks = [
        [iteration(9.0, [9.0], [9.0]), iteration(2.0, [0.5, 0.25], [0.25])],
        [iteration(9.0, [9.0], [9.0]), iteration(2.0, [0.25, 0.75], [0.25])],
    ]
    assert scaling.figures(ranks, [100, 300]) == {
        "fps": 100.0,  # 200 frames in 2 s; the first iteration is not counted
        **{"iteration_s": 2.0, "cpu_s": 1.5, "collect_s": 0.5, "learn_s": 1.0},
        "reduce_s": 0.25 + 0.25 + 0.25,
        "wait_s": 0.125 + 0.25,
        "audit_s": 0.125,
        "frames_per_iteration": 200.0,
    }


def test_speed_ups_are_taken_within_a_repeat(scaling):
    def run(repeat: int, size: int, fps: float) -> dict[str, Any]:
        zeros = dict.fromkeys(("reduce_s", "wait_s", "audit_s", "cpu_s"), 0.0)
        place = {"mode": "weak", "processes": size, "repeat": repeat, "curve": []}
        return {**place, "fps": fps, "iteration_s": 1.0, **zeros}

    runs = [run(0, 1, 100.0), run(0, 2, 180.0), run(1, 1, 50.0), run(1, 2, 80.0)]
    one, two = scaling.summary(runs)
    assert (one["speedup"], one["efficiency"]) == (1.0, 1.0)
    assert two["speedup"] == pytest.approx(1.7)
    assert two["speedup_range"] == [1.6, 1.8]
    assert two["efficiency"] == pytest.approx(0.85)
    assert two["fps_range"] == [80.0, 180.0]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_one_and_two_processes_are_measured_in_turns(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e '.[compare]'")
    words = ["--task=Isaac-Cartpole-v0", "--num_envs=16", "--iterations=3", "--repeats=1"]
    places = ["--folder=runs", "--json=scaling.json", "--plot=scaling.svg"]
    command = [sys.executable, SCRIPT, *words, *places, "--", "agent.audit_interval=1"]
    launch = Launch(command, tmp_path)
    try:
        assert launch.wait(200) == 0, launch.output
        assert launch.left() == {}
    finally:
        launch.close()
    assert "| weak | 2 |" in launch.output
    assert (tmp_path / "scaling.svg").stat().st_size > 1000
    report = json.loads((tmp_path / "scaling.json").read_text())
    one, two = report["rows"]
    assert (one["processes"], two["processes"]) == (1, 2)
    assert two["frames_per_iteration"] == 2 * one["frames_per_iteration"] == 2 * 16 * 16
    assert one["reduce_s"] == one["wait_s"] == 0.0
    assert 0.0 < two["reduce_s"] < two["iteration_s"]
    assert two["collect_s"] + two["learn_s"] <= two["iteration_s"]
    assert [frames for frames, _ in report["runs"][1]["curve"]] == [512, 1024, 1536]
    files = sorted(tmp_path.glob("runs/weak_2_processes_1/rank?.json"))
    ranks = [json.loads(file.read_text()) for file in files]
    for same in zip(*(rank["iterations"] for rank in ranks), strict=True):
        assert len(same[0]["gradients"]) == len(same[1]["gradients"]) == 20  # one per minibatch
        assert len(same[0]["audit"]) == 1
