"""Collection during learning: the order, nothing shared, and the same bits at any timing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch

from envlab.config import merge
from envlab.distributed.audit import digests
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.fast_sac.learner import FastSacLearner
from envlab.registry import get_task, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.training.overlap import Overlap, StepLog
from tests.fast_sac.test_learner import WORDS
from tests.fast_sac.updates import make_learner
from tests.launcher import run, torchrun
from tests.small_runs import check_same_end, train_in
from tests.trained import SMALL, checkpoint_of, metrics_of, only_run

ALONE = DistributedContext.single("cpu")
LSTM = [
    f"agent.{name}.{word}"
    for name in ("actor", "critic")
    for word in ("class_name=RNNModel", "rnn_type=lstm", "rnn_hidden_dim=8", "rnn_num_layers=1")
]
JOBS = {
    "sac": ("fast_sac", [*WORDS, "agent.overlap=true"]),
    "td3": ("fast_sac", [*WORDS, "agent.overlap=true", "agent.algorithm.name=td3"]),
    "ppo": ("rsl_rl", [*SMALL, "agent.overlap=true", "env.episode_length_s=0.2"]),
    "lstm": ("rsl_rl", [*SMALL, "agent.overlap=true", *LSTM]),
}


class Number(NamedTuple):
    """A rollout that is a number."""

    value: int

    def state(self) -> dict[str, Any]:
        return {"value": self.value}


def overlap_of(
    collect: Callable[[], Any], hand_over: Callable[[], None] = lambda: None
) -> Overlap[Any]:
    return Overlap(collect, hand_over, lambda state: Number(**state), Number, ALONE)


def test_a_rollout_is_collected_by_the_policy_of_two_iterations_before():
    learner, copy = {"updates": 0}, {}
    overlap = overlap_of(lambda: Number(copy["updates"]), lambda: copy.update(learner))
    found = []
    for _ in range(4):
        with overlap.rollout() as rollout:
            found.append(rollout.value)
            learner["updates"] += 1
    assert found == [0, 0, 1, 2]


def test_a_rollout_is_collected_while_another_is_learned_from():
    learning, collected = threading.Event(), threading.Event()
    calls: list[int] = []

    def collect() -> Number:
        calls.append(1)
        if len(calls) > 1:  # learning begins after the first
            assert learning.wait(10.0)
            collected.set()
        return Number(len(calls))

    with overlap_of(collect).rollout() as rollout:
        learning.set()
        assert collected.wait(10.0)
        assert rollout.value == 1


def test_the_learner_keeps_its_number_of_torch_threads():
    """Environments set it to one for their thread; the bits of sums depend on this number."""
    collected = threading.Event()

    def collect() -> Number:
        found = torch.get_num_threads()
        torch.set_num_threads(1)
        collected.set()
        return Number(found)

    torch.set_num_threads(2)
    overlap = overlap_of(collect)
    with overlap.rollout() as rollout:
        assert rollout.value == 2
        assert collected.wait(10.0)
        assert torch.get_num_threads() == 2


def test_an_error_of_the_thread_reaches_the_learner():
    calls: list[int] = []

    def collect() -> Number:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("lost")
        return Number(0)

    with pytest.raises(ValueError, match="lost"), overlap_of(collect).rollout():
        pass


def test_an_error_of_the_learner_waits_for_the_thread():
    done: list[int] = []

    def collect() -> Number:
        time.sleep(0.1)
        done.append(1)
        return Number(0)

    with pytest.raises(ValueError, match="mine"), overlap_of(collect).rollout():
        raise ValueError("mine")
    assert len(done) == 2


def test_rollouts_that_share_with_the_learner_are_refused():
    def summing() -> Number:
        with ALONE.progress.during("reduce"):
            return Number(0)

    for collect, words in [
        (lambda: Number(int(torch.randint(9, ()))), "draws from the process's generators"),
        (summing, "sums over processes"),
    ]:
        with pytest.raises(ConfigurationError, match=words), overlap_of(collect).rollout():
            pass


def test_steps_are_replayed_as_they_were_when_taken():
    """Environments reuse their tensors."""
    log, rewards, replayed = StepLog(ALONE), torch.zeros(2), []
    shared: dict[str, Any] = {"log": {"a": torch.zeros(())}, "num_ended": 1, "other": 2}
    for number in range(3):
        rewards.fill_(number)
        shared["log"]["a"].fill_(number)
        log(rewards, rewards > 1, shared)
    again = StepLog(ALONE)
    again.set_state(log.state())
    again.tell(lambda *step: replayed.append(step))
    assert [step[0].tolist() for step in replayed] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert [step[1].tolist() for step in replayed] == [[False] * 2, [False] * 2, [True] * 2]
    assert [float(step[2]["log"]["a"]) for step in replayed] == [0.0, 1.0, 2.0]
    assert [step[2]["num_ended"] for step in replayed] == [1, 1, 1]


Networks = dict[str, torch.nn.Module]


def sac_learner() -> tuple[FastSacLearner, Networks, Networks]:
    """Return a learner, its learning networks and its acting ones."""
    learner = make_learner(ALONE, overlap=True)
    learns = {"actor": learner.bare_actor, "scaler": learner.scalers["obs"]}
    return learner, learns, {name: getattr(learner.collector, name) for name in learns}


def ppo_learner() -> tuple[RslRlLearner, Networks, Networks]:
    task = get_task("Isaac-Cartpole-v0")
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": 8}, "seed": 1}, "env")
    normalised = {name: {"obs_normalization": True} for name in ("actor", "critic")}
    cfg = merge(RslRlCfg(), {"overlap": True, **normalised}, "agent")
    learner = RslRlLearner(task.make(env_cfg, context=ALONE), cfg, ALONE)
    assert isinstance(learner.alg, DistributedPPO)
    return learner, learner.alg.networks, learner.ahead.acting.networks


def test_the_acting_networks_are_the_learned_ones_of_the_last_boundary():
    for make in [sac_learner, ppo_learner]:
        learner, learns, acts = make()
        for number in range(1, 4):
            before = {name: digests(network.state_dict()) for name, network in learns.items()}
            learner.iterate(number, lambda *_: None)
            for name, network in acts.items():
                assert digests(network.state_dict()) == before[name], name
                assert digests(learns[name].state_dict()) != before[name], name


def test_advantages_are_normalised_over_all_ranks_and_by_the_learners_thread():
    learner, _, _ = ppo_learner()
    called = []

    def pooled(values: torch.Tensor, context: DistributedContext) -> tuple[float, float]:
        if context is ALONE:
            called.append((threading.current_thread() is threading.main_thread(), len(values)))
        return 0.5, 2.0

    with mock.patch("envlab.rsl_rl.ppo.pooled_moments", pooled), learner.rollout(lambda *_: None):
        storage = learner.alg.storage
        expected = (storage.returns - storage.values - 0.5) / (2.0 + 1e-8)
        torch.testing.assert_close(storage.advantages, expected)
    assert called == [(True, 24)]


@pytest.fixture(
    scope="module",
    params=[
        *("sac", "ppo"),
        *(pytest.param(name, marks=pytest.mark.long) for name in ("td3", "lstm")),
    ],
)
def job(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    return JOBS[request.param]


def trained_in(folder: Path, job: tuple[str, list[str]], *words: str) -> Path:
    assert train_in(job[0], folder, *job[1], "--max_iterations=4", *words) == 0
    return only_run(folder)


@pytest.fixture(scope="module")
def whole(job: tuple[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose thread finishes collecting before anything is learned."""

    def early(overlap: Overlap[Any]) -> Future[Any]:
        begun = begin(overlap)
        wait([begun])
        return begun

    begin = Overlap.begin
    with mock.patch.object(Overlap, "begin", early):
        return trained_in(tmp_path_factory.mktemp("whole"), job)


def test_a_run_does_not_depend_on_which_thread_is_faster(
    job: tuple[str, list[str]], whole: Path, tmp_path: Path
):
    def late(overlap: Overlap[Any]) -> Any:
        time.sleep(0.1)  # an update takes a fifth of it
        return collect(overlap)

    collect = Overlap.run
    with mock.patch.object(Overlap, "run", late):
        other = trained_in(tmp_path, job)
    check_same_end(other, whole, resumed_at=0, iteration=4)


def test_a_run_that_was_killed_ends_as_the_unbroken_one(
    job: tuple[str, list[str]], whole: Path, tmp_path: Path
):
    checkpoint = f"--checkpoint={whole}/checkpoints/model_2.pt"
    resumed = trained_in(tmp_path, job, "--resume", checkpoint)
    check_same_end(resumed, whole, resumed_at=2, iteration=4)


def test_frames_are_counted_when_they_are_learned_from(whole: Path):
    frames = [record["frames"] for record in metrics_of(whole)]
    assert frames == [frames[0] * number for number in range(1, 5)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    worker = Path(__file__).with_name("worker_overlap.py")
    code, output = run(torchrun(2, worker, folder), folder)
    assert code == 0, output
    return folder


@pytest.mark.long
def test_two_ranks_resume_bit_identically(pair: Path):
    """The ranks are audited after their first update, and at each checkpoint."""
    for name in ["sac", "ppo"]:
        whole, again = only_run(pair / name / "whole"), only_run(pair / name / "again")
        check_same_end(again, whole, resumed_at=2, iteration=4)
        first, second = (part["learner"] for part in checkpoint_of(whole, 4)["ranks"])
        place = {"sac": "overlap", "ppo": "ahead.overlap"}[name]
        assert not torch.equal(first[place]["generator"], second[place]["generator"])


def test_without_overlap_a_resume_leaves_out_the_rollout_collected_ahead(tmp_path: Path, capfd):
    library, words = JOBS["sac"]
    folder = trained_in(tmp_path / "with", (library, words), "--max_iterations=2")
    more = ["--resume", f"--checkpoint={folder}/checkpoints/model_2.pt", "agent.overlap=false"]
    trained_in(tmp_path / "without", (library, WORDS), *more)
    assert "The checkpoint's learner.overlap is ignored" in capfd.readouterr().err
