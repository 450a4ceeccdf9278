"""Ranks that learn alone are averaged: two real ranks, and the outer step on one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from envlab.agent_cfg import BasicAgentCfg
from envlab.distributed.audit import digest
from envlab.distributed.context import DistributedContext
from envlab.learner import Iteration, Learner, OnStep
from envlab.training.averaging import Averaging, Waits
from tests.launcher import run, torchrun
from tests.trained import metrics_of, only_run
from tests.training.worker_averaging import JOBS

WORKER = Path(__file__).with_name("worker_averaging.py")
VARIANCES = {"_var": "_mean", "running_var": "running_mean", "running_variance": "running_mean"}
MEETINGS = [2, 4, 5]
"""Iterations after which ranks of the worker meet, of five in intervals of two."""


BY_NIGHT = ("rl_games", "skrl", "sac", "mappo")
"""Their learners are averaged by the same lines as those of rsl_rl and of fast_sac."""


def each_job() -> list[Any]:
    return [pytest.param(job, marks=[pytest.mark.long] if job in BY_NIGHT else []) for job in JOBS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    folder = tmp_path_factory.mktemp("averaging")
    jobs = [job for job in JOBS if job not in BY_NIGHT or pytestconfig.getoption("--all")]
    code, output = run(torchrun(2, WORKER, folder, *jobs), folder)
    assert code == 0, output
    return folder


def ranks_of(folder: Path, job: str) -> list[list[dict[str, Any]]]:
    return [torch.load(folder / f"{job}_rank{rank}.pt") for rank in (0, 1)]


def partner_of(path: str, names: dict[str, str]) -> str | None:
    above, dot, name = path.rpartition(".")
    return f"{above}{dot}{names[name]}" if name in names else None


@pytest.mark.slow
@pytest.mark.parametrize("job", each_job())
def test_after_an_average_both_ranks_have_the_mean_of_what_they_learned(folder: Path, job: str):
    first, second = ranks_of(folder, job)
    assert [each["iteration"] for each in first] == MEETINGS
    for one, other in zip(first, second, strict=True):
        for path, after in one["after"].items():
            a, b = one["before"][path], other["before"][path]
            assert digest(after) == digest(other["after"][path]), path
            if path == "rates":
                torch.testing.assert_close(after, (a * b).sqrt(), rtol=1e-6, atol=0.0)
            elif partner := partner_of(path, VARIANCES):
                means = [each["before"][partner] for each in (one, other)]
                spread = (means[0] - means[1]).square() / 4.0  # of two means about theirs
                torch.testing.assert_close(after, (a + b) / 2.0 + spread)
            elif partner := partner_of(path, {"_std": "_var"}):
                torch.testing.assert_close(after, one["after"][partner].sqrt())
            elif isinstance(after, torch.Tensor) and after.is_floating_point():
                # A rounded change is off by 2^-9 of it, and is smaller than 0.1 in an interval.
                rtol, atol = (4e-3, 4e-4) if "bfloat16" in job else (1e-5, 1e-7)
                torch.testing.assert_close(after, (a + b) / 2.0, rtol=rtol, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("job", each_job())
def test_between_averages_ranks_learn_from_their_own_samples(folder: Path, job: str):
    first, second = ranks_of(folder, job)
    for one, other in zip(first, second, strict=True):
        learned = [
            path
            for path, value in one["before"].items()
            if isinstance(value, torch.Tensor) and value.dim() > 1
        ]
        assert learned
        assert not all(torch.equal(one["before"][path], other["before"][path]) for path in learned)


@pytest.mark.slow
def test_what_is_sent_is_rounded_only_in_bfloat16(folder: Path):
    (plain, *_), (rounded, *_), (summed, *_) = (
        ranks_of(folder, job)[0] for job in ("rsl_rl", "rsl_rl, bfloat16", "rsl_rl, summed")
    )
    tensors = [path for path, value in plain["after"].items() if isinstance(value, torch.Tensor)]
    equal = {path for path in tensors if torch.equal(plain["after"][path], rounded["after"][path])}
    assert {path for path in tensors if "normalizer" in path} <= equal
    assert len(equal) < len(tensors)
    for path in tensors:
        torch.testing.assert_close(plain["after"][path], summed["after"][path])


@pytest.mark.slow
def test_a_record_is_of_the_iterations_since_the_last_average(folder: Path):
    records = metrics_of(only_run(folder / "rsl_rl"))
    assert [record["iteration"] for record in records] == MEETINGS
    frames = [record["frames"] for record in records]
    per_iteration = frames[0] // MEETINGS[0]
    assert frames == [number * per_iteration for number in MEETINGS]


class Line(Learner):
    """Does not learn: the test moves its parameters."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.network = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1.0)

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        raise NotImplementedError

    def model_state(self) -> dict[str, Any]:
        return {"network": self.network.state_dict()}

    def load_models(self, values: Any) -> None:
        raise NotImplementedError

    def all_optimizers(self) -> list[torch.optim.Optimizer]:
        return [self.optimizer]


def test_the_outer_step_is_nesterovs_of_torch_on_the_mean_change():
    cfg = BasicAgentCfg(outer_learning_rate=0.7, outer_momentum=0.9)
    ours, theirs = Line(), Line()
    outer = torch.optim.SGD(theirs.network.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    averaging = Averaging(ours, DistributedContext(), cfg)
    averaging.begin()
    for _ in range(4):
        for mine, its in zip(ours.network.parameters(), theirs.network.parameters(), strict=True):
            change = torch.randn_like(mine)
            mine.data += change
            its.grad = -change
        assert averaging.average("word") == ["word"]
        outer.step()
        for mine, its in zip(ours.network.parameters(), theirs.network.parameters(), strict=True):
            torch.testing.assert_close(mine, its)


def test_averages_keep_to_multiples_of_the_interval():
    averaging = Averaging(Line(), DistributedContext(), BasicAgentCfg(sync_interval=3))
    assert [averaging.next_after(done) for done in range(7)] == [3, 3, 3, 6, 6, 6, 9]


class SlowWire(DistributedContext):
    """Two nodes of one process each, whose sums take a while."""

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        time.sleep(0.01)
        return tensor


@pytest.mark.parametrize(
    ("seconds", "num_nodes", "is_told"), [(1.0, 2, True), (10.0, 2, False), (1.0, 1, False)]
)
def test_waiting_for_a_fifth_of_an_iteration_is_told_once(
    seconds: float, num_nodes: int, is_told: bool, caplog: pytest.LogCaptureFixture
):
    learner = Line()
    context = SlowWire(world_size=2, local_world_size=2 // num_nodes)
    waits = Waits(learner, context)
    for number in range(4):
        for _ in range(50 if number else 0):  # the first iteration of a replay memory has no steps
            learner.optimizer.step()
        waits.end_iteration(seconds, is_warm=number > 0)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == is_told
    if is_told:
        assert "gradients are averaged 50 times" in told[0]
        assert "--grad_sync local" in told[0]
