"""Children inherit weights, moments and counters, and share nothing with their parents."""

from __future__ import annotations

import copy
import dataclasses
import gc
from typing import Any

import pytest
import torch

from envlab_populations.evolution.cfg import ALGORITHMS
from envlab_populations.population.member import Change, Genes, Member
from tests.learner_contract import digests
from tests.populations.evolution.populations import IMAGE, nursery, outputs, train, trained

TOLERANCE = 2e-6


def digests_of(member: Member) -> dict[str, str]:
    names = ("index", "parent", "copied")
    return digests({key: value for key, value in member.whole().items() if key not in names})


def grown(member: Member, **changes: Any) -> Genes:
    """Return genes of a larger shape, by default with a wider layer and another one."""
    shape = dataclasses.replace(member.genes.architecture, **changes or {"hidden": (96, 64, 64)})
    return dataclasses.replace(member.genes, architecture=shape)


def change(genes: Genes, seed: int = 1) -> Change:
    return Change(text="changed", genes=genes, seed=seed)


def moments(member: Member) -> list[torch.Tensor]:
    states = [state for one in member.learner.optimizers().values() for state in one.state.values()]
    return [value for state in states for value in state.values()]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_clone_is_its_parent_and_grows_into_one_that_computes_the_same(algorithm: str):
    parent = trained(nursery(algorithm))
    member = parent.clone(7)
    assert (member.index, member.parent) == (7, 0)
    of_parent = digests_of(parent)
    assert digests_of(member) == of_parent
    before = outputs(member)
    steps = min(float(value) for value in moments(member) if value.dim() == 0)
    member.become(change(grown(member)))
    after = outputs(member)
    assert before.keys() == after.keys()
    assert max(float((after[role] - before[role]).abs().max()) for role in before) < TOLERANCE
    train(member, 32, first=48)
    counts = [float(value) for value in moments(member) if value.dim() == 0]
    assert min(counts) > steps, "Adam began anew"
    assert digests_of(parent) == of_parent, "they share a tensor"


def test_images_are_seen_by_convolutions_that_grow():
    member = trained(nursery("dqn", seen=IMAGE), steps=16)
    before = outputs(member)
    assert member.genes.architecture.channels == (32, 64)
    larger = {"channels": (40, 64, 64), "kernels": (5, 3, 3), "strides": (3, 2, 1)}
    member.become(change(grown(member, **larger)))
    after = outputs(member)
    assert max(float((after[role] - before[role]).abs().max()) for role in before) < TOLERANCE
    train(member, 8, first=16)


def test_a_childs_learning_rate_is_its_own_and_not_its_parents():
    """``Optimizer.load_state_dict`` would bring the parent's along, and its very tensors."""
    member = trained(nursery("sac"))
    rates = {"learning_rate": 5e-3, "batch_size": 64}
    member.become(change(dataclasses.replace(member.genes, hyperparameters=rates)))
    for optimizer in member.learner.optimizers().values():
        assert [group["lr"] for group in optimizer.param_groups] == [5e-3]
    assert member.learner.agent.cfg.batch_size == 64


def test_a_restored_member_continues_as_the_saved_one_would_have():
    made_with = nursery("sac")
    member = trained(made_with)
    saved, replay = copy.deepcopy(member.whole()), copy.deepcopy(made_with.memory.state())
    other = nursery("sac")
    restored = Member.of(other, saved, saved)
    other.memory.set_state(replay)
    ends: list[Any] = []
    for one in (member, restored):
        torch.manual_seed(5)
        train(one, 8, first=48)
        ends.append(digests_of(one))
    assert ends[0] == ends[1]


def test_members_that_are_gone_are_gone_from_memory():
    """skrl's agents sit in circles of references, which only the collector frees."""
    made_with = nursery("dqn")
    member = trained(made_with, steps=4)
    for index in range(1, 20):
        member = member.clone(index)
        member.become(change(grown(member), seed=index))
    gc.collect()
    agents = [one for one in gc.get_objects() if isinstance(one, type(member.learner.agent))]
    assert len([one for one in agents if one.memory is made_with.memory]) == 1
