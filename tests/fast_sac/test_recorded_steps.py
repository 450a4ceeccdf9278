"""Gradient steps as graphs: the same bits, without a read of the host."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.fast_sac.learner import FastSacLearner
from envlab.fast_sac.replay import Batch
from envlab.sim import host
from envlab.sim.recordable import RepeatedOperations
from envlab.sim.recording import records_updates
from tests.fast_sac.updates import BATCH, make_learner
from tests.graphs import capturable_on_a_cpu, record_steps
from tests.iterations import Iterations
from tests.operations import Operations, Reads

ALONE = DistributedContext.single("cpu")


@pytest.fixture(autouse=True)
def on_a_cpu() -> Iterator[None]:
    with capturable_on_a_cpu():
        yield


def recorded(learner: FastSacLearner) -> FastSacLearner:
    """Have a learner's gradient steps and acting recorded, as on a GPU."""
    learner.record(lambda: RepeatedOperations, is_required=True)
    return learner


def random_batch(seed: int) -> Batch:
    draws = torch.Generator().manual_seed(seed)
    obs, after = torch.randn(2, BATCH, 4, generator=draws)
    actions = torch.rand(BATCH, 1, generator=draws) * 2.0 - 1.0
    rewards, discounts = torch.rand(2, BATCH, generator=draws)
    return Batch(obs, obs, actions, rewards, discounts, after, after)


def learn(learner: FastSacLearner, seeds: range) -> None:
    torch.manual_seed(seeds.start)
    for seed in seeds:
        learner.update(Batch(*(one.to(learner.half_width.device) for one in random_batch(seed))))


def assert_equal(one: FastSacLearner, other: FastSacLearner) -> None:
    for name in ("bare_actor", "bare_critics", "target"):
        theirs = getattr(other, name).state_dict()
        for key, values in getattr(one, name).state_dict().items():
            assert torch.equal(values, theirs[key]), f"{name}.{key}"


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_graphs_repeat_the_bits_of_steps_and_nothing_waits(name: str):
    algorithm = {"name": name, "policy_frequency": 2, "batch_size": BATCH}
    plain, ours = (make_learner(ALONE, algorithm=algorithm) for _ in range(2))
    recorded(ours)
    learn(plain, range(30))
    with Operations() as operations:
        learn(ours, range(30))
    assert operations.waits == []
    assert all(one.is_made for one in ours.recorded.recordings.values())
    assert_equal(plain, ours)
    assert ours.take_losses() == pytest.approx(plain.take_losses(), rel=1e-6)


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_iterations_by_graphs_have_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "HOST", set())
    algorithm = {"name": name, "batch_size": BATCH}
    plain, ours = (make_learner(ALONE, algorithm=algorithm) for _ in range(2))
    record_steps(recorded(ours).env)
    seen = []
    for learner in (plain, ours):
        torch.manual_seed(3)
        seen.append([learner.iterate(number, lambda *_: None).losses for number in range(1, 12)])
    assert ours.collector.recording.is_made
    assert_equal(plain, ours)
    assert seen[0] == seen[1]


def test_a_checkpoint_of_graphs_goes_on_without_them_and_back():
    ours = recorded(make_learner(ALONE))
    learn(ours, range(20))
    saved = copy.deepcopy(ours.model_state())
    plain, again = make_learner(ALONE), recorded(make_learner(ALONE))
    for learner in (plain, again):
        learner.load_models({"model": copy.deepcopy(saved)})
    for learner in (ours, plain, again):
        learn(learner, range(20, 40))
    assert_equal(ours, plain)
    assert_equal(ours, again)


def test_another_rate_is_recorded_anew():
    plain, ours = make_learner(ALONE), recorded(make_learner(ALONE))
    for learner in (plain, ours):
        learn(learner, range(20))
        for optimizer in learner.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = 1e-4
        learn(learner, range(20, 40))
    assert_equal(plain, ours)


def test_an_iteration_reads_the_device_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "HOST", set())
    learner = recorded(make_learner(ALONE))
    iterations = Iterations(learner, learner.env, learner.cfg.num_steps_per_env)
    for number in range(1, 6):
        with Reads() as reads:
            iteration = iterations.make()
        assert len(reads.found) == 1 or number == 1, reads.found  # one-off work is done by then
    assert iteration.losses


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_lets_the_host_wait_once_an_iteration():
    learner = make_learner(DistributedContext.single("cuda:0"), graph="on")
    iterations = Iterations(learner, learner.env, learner.cfg.num_steps_per_env)
    for _ in range(12):  # until all is recorded
        iterations.make()
    assert all(one.is_made for one in learner.recorded.recordings.values())
    assert iterations.make_without_waits() == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_repeats_gradient_steps():
    context = DistributedContext.single("cuda:0")
    plain, ours = (make_learner(context, graph=graph) for graph in ("off", "on"))
    for learner in (plain, ours):
        learn(learner, range(30))
    assert all(one.is_made for one in ours.recorded.recordings.values())
    assert ours.take_losses() == pytest.approx(plain.take_losses(), rel=1e-3, abs=1e-3)


def test_updates_are_recorded_where_they_can_be(caplog: pytest.LogCaptureFixture):
    gpu, cpu = torch.device("cuda:0"), torch.device("cpu")
    assert records_updates("auto", gpu, None)
    assert records_updates("on", gpu, None)
    assert not records_updates("off", gpu, None)
    assert not records_updates("auto", cpu, None)
    with caplog.at_level("INFO", "envlab"):
        assert not records_updates("auto", gpu, "its networks are recurrent")
    assert "Updates are not recorded as graphs: its networks are recurrent." in caplog.text
    with pytest.raises(ConfigurationError, match="but this process learns on cpu"):
        records_updates("on", cpu, None)
    with pytest.raises(ConfigurationError, match="cannot be recorded: it has rnd_cfg"):
        records_updates("on", gpu, "it has rnd_cfg")
