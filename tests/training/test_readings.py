"""What the host wants to know of a device is read together, and a run is the same for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.readings import Readings
from envlab.distributed.statistics import WeightedMeans
from envlab.sim import host
from tests.operations import Reads
from tests.small_runs import CARTPOLE, train_in
from tests.trained import only_run


def test_values_are_read_once_as_they_were_when_asked_for():
    readings, counter = Readings(), torch.tensor([1.0, 2.0], dtype=torch.float64)
    taken: list[list[float]] = []
    readings.ask(counter, lambda numbers: taken.append(list(numbers)))
    readings.ask(torch.tensor(7), lambda numbers: taken.append(list(numbers)))
    counter.zero_()
    more = torch.tensor([3.5])
    with Reads() as reads:
        assert readings.read(more) == [3.5]
    assert taken == [[1.0, 2.0], [7.0]]
    assert len(reads.found) == 1
    with Reads() as reads:
        assert readings.read() == []
    assert reads.found == []


def test_means_that_were_asked_for_are_those_of_all_that_was_added():
    asked, plain, readings = WeightedMeans(), WeightedMeans(), Readings()
    for means in (asked, plain):
        for value in (2.0, 3.0):
            means.add(("a", "b"), torch.tensor([value, 10.0 * value]), torch.tensor(2))
        if means is asked:
            means.ask(readings)
            readings.read()
        means.add("a", 4.0, 1.0)
    gather = DistributedContext().gather
    assert asked.reduce(gather) == plain.reduce(gather) != {}
    assert asked.reduce(gather) == {}


@pytest.mark.parametrize("library", ["rsl_rl", "fast_sac"])
def test_a_run_as_on_a_gpu_has_the_metrics_of_one_that_reads_at_once(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    small = {
        "rsl_rl": ["agent.num_steps_per_env=8", "agent.check_for_nan=false"],
        "fast_sac": ["agent.algorithm.batch_size=16", "agent.warmup_steps=2"],
    }
    words = [f"--task={CARTPOLE}", "--headless", "--num_envs=16", "--max_iterations=3"]
    words += ["env.episode_length_s=0.5", *small[library]]
    found, asked_for, ask = [], [], WeightedMeans.ask

    def counted(means: WeightedMeans, readings: Readings) -> None:
        asked_for.append(1)
        ask(means, readings)

    monkeypatch.setattr(WeightedMeans, "ask", counted)
    for folder in ("cpu", "gpu"):
        if folder == "gpu":
            monkeypatch.setattr(host, "HOST", set())
        assert train_in(library, tmp_path / folder, *words) == 0
        lines = (only_run(tmp_path / folder) / "metrics.jsonl").read_text().splitlines()
        assert len(asked_for) == (3 if folder == "gpu" else 0)
        found.append([json.loads(line) for line in lines])
    assert found[0][-1]["mean_return"] is not None
    for plain, asked in zip(*found, strict=True):
        for name in ("mean_return", "mean_episode_length", "learning_rate", "frames"):
            assert asked[name] == pytest.approx(plain[name], rel=1e-5), name
        assert asked["episode"] == pytest.approx(plain["episode"], rel=1e-4, abs=1e-6)
        assert asked["losses"] == pytest.approx(plain["losses"], rel=1e-3, abs=1e-5)
