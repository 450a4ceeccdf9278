"""A recorded rollout is the library's, and an iteration reads the device once."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_agent_values, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from envlab.rsl_rl.recorded_rollout import RecordedRollout
from envlab.rsl_rl.recorded_update import RecordedUpdate
from envlab.sim import host
from envlab.sim.repeated import RepeatedOperations
from envlab.state import restore, save
from tests.graphs import capturable_on_a_cpu, record_steps
from tests.iterations import Iterations
from tests.operations import Reads
from tests.tasks.making import make

CARTPOLE, GO2 = "Isaac-Cartpole-v0", "Isaac-Velocity-Flat-Unitree-Go2-v0"
SMALL: dict[str, Any] = {
    "num_steps_per_env": 8,
    "actor": {"hidden_dims": [16], "obs_normalization": True},
    "critic": {"hidden_dims": [16], "obs_normalization": True},
    "algorithm": {"num_learning_epochs": 2, "num_mini_batches": 2},
}
ALONE = DistributedContext(num_threads=1)
STORED = ("actions", "rewards", "dones", "values", "actions_log_prob", "returns", "advantages")


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host, "HOST", set())
    with capturable_on_a_cpu():
        yield


def learner_of(task: str = CARTPOLE, kind: str = "library", **fields: Any) -> RslRlLearner:
    """Return a learner: the library's own, or with ours, ``unrecorded`` or by ``graphs``."""
    env = make(task, num_envs=4, seed=1, **fields)
    cfg = merge(RslRlCfg(), load_agent_values(get_task(task), "rsl_rl"), "agent")
    cfg = merge(cfg, SMALL, "agent")
    torch.manual_seed(0)
    learner = RslRlLearner(env, cfg, ALONE)
    if kind == "library":
        return learner
    alg, graphs = learner.alg, lambda: RepeatedOperations
    alg.recorded = RecordedUpdate(alg, graphs, is_required=True)
    alg.recorded.readings = learner.readings
    learner.recorded_rollout = RecordedRollout(alg, graphs, is_required=True)
    if kind == "graphs":
        record_steps(env)
        return learner
    for recording in (alg.recorded.recording, *learner.recorded_rollout.recordings.values()):
        recording.give_up()
    return learner


def ignore(*_: Any) -> None:
    """Count no step."""


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
    for number in range(1, 8):
        whole.iterate(number, ignore)
    parts = copy.deepcopy(
        (whole.model_state(), save(whole), save(whole.env.unwrapped), torch.get_rng_state())
    )
    losses = [whole.iterate(number, ignore).losses for number in range(8, 15)]
    again = learner_of(CARTPOLE, "graphs")
    model, own, env, generator = parts
    again.load_models({"model": model})
    restore(again, own, torch.device("cpu"))
    restore(again.env.unwrapped, env, torch.device("cpu"))
    torch.set_rng_state(generator)
    assert [again.iterate(number, ignore).losses for number in range(8, 15)] == losses
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
