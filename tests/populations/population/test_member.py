"""Members share a process, in which libraries would mix them up: each of these traps is closed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
import torch.distributed as dist

from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.state import save
from envlab.training.preparation import prepare
from envlab_populations.population.learner import PopulationLearner
from envlab_populations.population.member import Change, Genes, Member
from envlab_populations.population.tournament import Tournament
from tests.learner_contract import digests
from tests.trained import TASK, session_of

SMALL = ["--headless", "--device=cpu", "--num_envs=8", "env.episode_length_s=0.2"]
LIBRARIES = {
    "rsl_rl": [
        *("agent.algorithm.schedule=fixed", "agent.num_steps_per_env=8"),
        *("agent.actor.obs_normalization=true", "agent.critic.obs_normalization=true"),
        "population.ranges.agent.algorithm.learning_rate=[1e-5,1e-2]",
        "population.ranges.agent.algorithm.entropy_coef=[0.001,0.01]",
    ],
    "rl_games": [
        *("agent.params.config.lr_schedule=identity", "agent.params.config.horizon_length=8"),
        "agent.params.config.minibatch_size=32",
        "population.ranges.agent.params.config.learning_rate=[1e-5,1e-2]",
        "population.ranges.agent.params.config.entropy_coef=[0.001,0.01]",
    ],
    "skrl": [
        *("agent.agent.learning_rate_scheduler=null", "agent.agent.rollouts=8"),
        "population.ranges.agent.agent.learning_rate=[1e-5,1e-2]",
        "population.ranges.agent.agent.entropy_loss_scale=[0.001,0.01]",
    ],
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def population(library: str, *words: str, size: int = 2) -> PopulationLearner:
    """Return a population that is ready to train."""
    given = [TASK, f"--population_size={size}", *SMALL, *LIBRARIES[library], *words]
    session = session_of(library, given)
    prepared = prepare(session, DistributedContext(), session.library.load("build"))
    prepared.learner.start(9)
    assert isinstance(prepared.learner, PopulationLearner)
    return prepared.learner


def train(learner: PopulationLearner, *numbers: int) -> None:
    for number in numbers:
        learner.iterate(number, learner.tracker.add_step)


def learned(member: Member) -> dict[str, str]:
    return digests(member.learner.model_state())


def change(values: Mapping[str, float]) -> Change:
    return Change(text="perturb", genes=Genes(hyperparameters=values))


def named(values: Any, *names: str) -> set[float]:
    return {v for k, v in flatten(values).items() if k.rpartition(".")[2] in names}


def test_a_copy_has_its_parents_networks_and_settings_of_its_own():
    """``Optimizer.load_state_dict`` keeps the given tensors, and takes over their rate."""
    for library in LIBRARIES:
        learner = population(library)
        train(learner, 1)
        first, second = learner.members
        numbers = second.genes.hyperparameters
        rate = next(name for name in numbers if name.endswith("learning_rate"))
        explored = {**numbers, rate: 0.00123}
        second = first.child(change(explored), 1, second, first.learner.model_state())
        parent, state = first.learner.model_state(), second.learner.model_state()
        memory = [
            {v.untyped_storage().data_ptr() for v in flat.values() if isinstance(v, torch.Tensor)}
            for flat in (flatten(parent), flatten(state))
        ]
        assert not memory[0] & memory[1]
        then, now = digests(parent), digests(state)
        differing = {k.rpartition(".")[2] for k, v in then.items() if now[k] != v}
        assert "lr" in differing
        assert differing <= {"lr", "initial_lr", "learning_rate", "entropy_coef"}

        before, learner.tracker.turn = learned(first), 1
        told = learner.tracker.add_step, learner.tracker.means
        report = second.nursery.iterate(second.learner, 2, *told)
        assert learned(first) == before
        assert report.iteration.learning_rate == 0.00123
        state = second.learner.model_state()
        assert named(state, "lr", "learning_rate") == {0.00123}
        assert named(state, "entropy_coef") <= set(explored.values())


def test_a_members_results_do_not_depend_on_who_else_trains_here():
    """Its generators, environments and episodes are its own; the other one's differ."""
    both = population("rsl_rl")
    train(both, 1, 2)
    others = population("rsl_rl")
    alone, others.tracker.turn = others.members[1], 1
    for number in (1, 2):
        told = others.tracker.add_step, others.tracker.means
        alone.nursery.iterate(alone.learner, number, *told)
    assert learned(both.members[1]) == learned(alone)
    assert both.members[1].nursery.metrics.counters() == alone.nursery.metrics.counters()
    first, second = (member.nursery.env.state() for member in both.members)
    assert digests(first) != digests(second)


def test_a_copy_keeps_its_episodes_and_forgets_the_returns_of_its_past():
    learner = population("rsl_rl")
    train(learner, 1, 2)
    first, second = learner.members
    assert second.nursery.metrics.state()["window"]
    before = copy.deepcopy((second.nursery.env.state(), save(second.nursery.tracker)))
    first.child(change(second.genes.hyperparameters), 1, second, first.learner.model_state())
    after = second.nursery.env.state(), save(second.nursery.tracker)
    assert [digests(state) for state in before] == [digests(state) for state in after]
    assert not second.nursery.metrics.state()["window"]
    assert learner.reports[1].record.mean_return is not None


def test_a_copy_of_a_member_that_is_overwritten_at_the_same_meeting_has_what_it_was(
    monkeypatch: pytest.MonkeyPatch,
):
    before: list[dict[str, str]] = []

    def pairs(*_: Any) -> Iterator[tuple[int, int]]:
        before.extend(learned(member) for member in learner.members)
        yield 1, 0
        yield 2, 1

    monkeypatch.setattr(Tournament, "pairs", pairs)
    words = ["population.strategy=tournament", "population.interval=1"]
    learner = population("rsl_rl", *words, size=3)
    train(learner, 1)
    for target, source in ((0, 0), (1, 0), (2, 1)):
        now, then = learned(learner.members[target]), before[source]
        differing = {name.rpartition(".")[2] for name in then if now[name] != then[name]}
        assert differing <= {"lr", "initial_lr", "learning_rate"}, target


def test_rsl_rls_normaliser_stays_within_its_member(monkeypatch: pytest.MonkeyPatch):
    """Stock, it reduces over the default group whenever there is one."""
    calls: list[str] = []
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "all_reduce", lambda *_, **__: calls.append("all_reduce"))
    lone = population("rsl_rl")
    train(lone, 1)
    monkeypatch.undo()
    stock = population("rsl_rl")
    train(stock, 1)
    assert not calls
    assert learned(lone.members[0]) == learned(stock.members[0])


def test_numbers_that_build_networks_are_refused():
    lstm = ["class_name=RNNModel", "rnn_type=lstm", "rnn_hidden_dim=8", "rnn_num_layers=1"]
    words = [f"agent.{name}.{word}" for name in ("actor", "critic") for word in lstm]
    with pytest.raises(ConfigurationError, match=r"different shapes.*agent.actor.rnn_hidden_dim"):
        population("rsl_rl", *words, "population.ranges.agent.actor.rnn_hidden_dim=[4,64]")
