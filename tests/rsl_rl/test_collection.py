"""A recorded rollout is the library's, and an iteration reads the device once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_agent_values, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from envlab.sim import host
from tests.graphs import capturable_on_a_cpu
from tests.iterations import Iterations
from tests.launcher import run, torchrun
from tests.operations import Reads
from tests.rsl_rl.recorded import (
    CARTPOLE,
    GO2,
    SMALL,
    ignore,
    learner_of,
    losses_of,
    resume,
    saved_parts,
)

STORED = ("actions", "rewards", "dones", "values", "actions_log_prob", "returns", "advantages")


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host, "HOST", set())
    with capturable_on_a_cpu():
        yield


def rollouts(learner: RslRlLearner, number: int) -> list[dict[str, torch.Tensor]]:
    """Return what the storage holds after each of some rollouts without updates."""
    torch.manual_seed(3)
    found = []
    for _ in range(number):
        with learner.rollout(ignore):
            storage = learner.alg.storage
            stored = {name: getattr(storage, name).clone() for name in STORED}
            stored |= {name: values.clone() for name, values in storage.observations.items()}
            params = enumerate(storage.distribution_params)
            found.append(stored | {f"params {i}": values.clone() for i, values in params})
            assert storage.step == SMALL["num_steps_per_env"]
            storage.clear()
    return found


@pytest.mark.parametrize("kind", ["unrecorded", "graphs"])
def test_a_rollout_has_the_librarys_bits_also_at_time_limits(kind: str):
    limit = {"episode_length_s": 0.25}
    ours = learner_of(CARTPOLE, kind, **limit)
    expected = rollouts(learner_of(CARTPOLE, **limit), 7)
    assert any(step["dones"].any() for step in expected)
    for number, (theirs, mine) in enumerate(zip(expected, rollouts(ours, 7), strict=True)):
        for name, values in theirs.items():
            assert torch.equal(values, mine[name]), (number, name)
    made = [recording.is_made for recording in ours.recorded_rollout.recordings.values()]
    assert made == [kind == "graphs"] * 3


def test_iterations_by_graphs_have_the_bits_of_the_same_functions():
    ends = []
    for kind in ("unrecorded", "graphs"):
        learner = learner_of(CARTPOLE, kind)
        torch.manual_seed(3)
        seen = []
        for number in range(1, 8):
            iteration = learner.iterate(number, ignore)
            seen.append((iteration.losses, iteration.learning_rate))
        ends.append((seen, learner.alg.save()["actor_state_dict"]))
    assert learner.alg.recorded.recording.is_made
    (plain, weights), (recorded, others) = ends
    assert plain == recorded
    for name, values in weights.items():
        assert torch.equal(values, others[name]), name


def test_it_goes_on_exactly_after_a_resume():
    whole = learner_of(CARTPOLE, "graphs")
    torch.manual_seed(3)
    losses_of(whole, 1, 7)
    parts = saved_parts(whole)
    losses = losses_of(whole, 8, 14)
    again = learner_of(CARTPOLE, "graphs")
    resume(again, parts)
    assert losses_of(again, 8, 14) == losses
    for name, values in whole.alg.save()["actor_state_dict"].items():
        assert torch.equal(values, again.alg.save()["actor_state_dict"][name]), name
    assert all(one.is_made for one in again.recorded_rollout.recordings.values())


def test_replaced_memory_is_recorded_anew():
    plain, ours = learner_of(CARTPOLE), learner_of(CARTPOLE, "graphs")
    for learner in (plain, ours):
        rollouts(learner, 6)
        normaliser = learner.alg.actor.obs_normalizer
        normaliser._std = normaliser._std * 2.0  # private: the library's update does the same
        learner.alg.gamma = 0.5
    (expected,), (found,) = rollouts(plain, 1), rollouts(ours, 1)
    assert torch.equal(expected["params 0"], found["params 0"])
    assert torch.equal(expected["returns"], found["returns"])


@pytest.mark.parametrize(
    ("task", "kind"), [(CARTPOLE, "graphs"), (CARTPOLE, "unrecorded"), (GO2, "unrecorded")]
)
def test_an_iteration_reads_the_device_once(task: str, kind: str):
    learner = learner_of(task, kind)
    iterations = Iterations(learner, learner.env.env, SMALL["num_steps_per_env"])
    for number in range(1, 8 if kind == "graphs" else 3):
        with Reads() as reads:
            iteration = iterations.make()
        record = iterations.record(iteration)
        with Reads() as after:
            learner.curves(record)
        if number > 1:  # one-off work is done
            assert len(reads.found) == 1, reads.found
            assert after.found == []


@pytest.mark.slow
def test_two_ranks_record_their_rollouts_with_the_same_bits_and_resume_exactly(tmp_path: Path):
    code, output = run(
        torchrun(2, Path(__file__).with_name("worker_recorded.py"), tmp_path), tmp_path
    )
    assert code == 0, output
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    for found in ranks:
        for part in ("losses", "later", "model"):
            assert_same(found["unrecorded"][part], found["graphs"][part])
        assert_same(found["graphs"]["later"], found["resumed"]["later"])
        assert_same(found["graphs"]["model"], found["resumed"]["model"])
        assert found["made"] == {"act": True, "keep": True, "returns": False}
    first, second = (found["graphs"] for found in ranks)
    assert_same(first["model"], second["model"])
    assert first["losses"] != second["losses"]  # they saw different environments


def assert_same(one: Any, other: Any) -> None:
    """Compare losses, or parameters by name."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        assert all(torch.equal(values, other[name]) for name, values in one.items())
    else:
        assert one == other


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("name", [CARTPOLE, GO2])
def test_a_gpu_lets_the_host_wait_once_an_iteration(name: str):
    task, context = get_task(name), DistributedContext.single("cuda:0")
    env = task.make(load_env_cfg(task), context=context, num_envs=64, seed=1)
    cfg = merge(RslRlCfg(), load_agent_values(task, "rsl_rl"), "agent")
    cfg = merge(cfg, {**SMALL, "graph": "on"}, "agent")
    learner = RslRlLearner(env, cfg, context)
    iterations = Iterations(learner, env, SMALL["num_steps_per_env"])
    for _ in range(8):  # until all is recorded
        iterations.make()
    assert all(one.is_made for one in learner.recorded_rollout.recordings.values())
    assert learner.alg.recorded.recording.is_made
    assert iterations.make_without_waits() == 1
