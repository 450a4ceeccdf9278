"""Tournaments and mutations make the same draws as AgileRL's."""

from __future__ import annotations

import collections
import copy
import dataclasses
import random
from typing import Any

import numpy as np
import pytest
import torch

from envlab_populations.evolution.cfg import BoundsCfg, MutationsCfg
from envlab_populations.evolution.mutations import Mutations
from envlab_populations.evolution.nursery import add_noise
from envlab_populations.population.architecture import Architecture, NetworkCfg
from envlab_populations.population.cfg import StrategyCfg
from envlab_populations.population.member import Member
from envlab_populations.population.strategy import ranking
from envlab_populations.population.tournament import Tournament
from tests.populations.evolution.populations import nursery, outputs


def mutations_of(odds: dict[str, float], selection: Any = None, seed: int = 0) -> Mutations:
    return Mutations(MutationsCfg(**odds), selection or {}, NetworkCfg(), seed)


ONLY = {"no_mutation": 0.0, "architecture": 0.0, "parameters": 0.0, "rl_hp": 0.0}
LR = {"lr": BoundsCfg(min=1e-4, max=1e-2)}


def test_the_fittest_stays_and_the_winner_of_each_draw_has_a_child():
    ranked, rng = ranking([3.0, 1.0, 5.0, 2.0, 4.0]), np.random.default_rng(0)
    tournament = Tournament(StrategyCfg(size=5, tournament_size=2))
    pairs = [pair for _ in range(2000) for pair in tournament.pairs(ranked, rng)]
    assert {target for target, _ in pairs} == {0, 1, 3, 4}
    counts = collections.Counter(parent for _, parent in pairs)
    # Of two draws with replacement from five, the one of rank r wins with (2 r - 1) / 25.
    ranks = {0: 3, 1: 1, 2: 5, 3: 2, 4: 4}
    for position, rank in ranks.items():
        assert counts[position] / 8000 == pytest.approx((2 * rank - 1) / 25, abs=0.02)


def test_without_elitism_the_fittest_gives_way_too():
    every = Tournament(StrategyCfg(size=3, tournament_size=1, elitism=False))
    rng = np.random.default_rng(0)
    assert [target for target, _ in every.pairs([1, 2, 0], rng)] == [1, 2, 0]


def test_fitness_is_the_mean_of_the_last_evaluations():
    member = Member.first(nursery("dqn"), 0)
    assert member.score() == -np.inf
    member.fitness = [100.0, 1.0, 3.0]
    assert (member.score(), member.score(2)) == (3.0, 2.0)


def test_classes_are_drawn_by_relative_probabilities():
    member = Member.first(nursery("dqn"), 0)
    odds = {"no_mutation": 4.0, "architecture": 2.0, "parameters": 2.0, "activation": 1.0}
    mutations = mutations_of(odds | {"rl_hp": 1.0}, LR)
    drawn = collections.Counter()
    for _ in range(2000):
        change = mutations.draw(member)
        is_shape = change.genes.architecture.hidden != member.genes.architecture.hidden
        drawn["architecture" if is_shape else change.text.split()[0]] += 1
    drawn["activation"] = drawn["elu"] + drawn["gelu"]
    for name, share in (odds | {"none": 4.0, "lr": 1.0}).items():
        if name != "no_mutation":
            assert drawn[name] / 2000 == pytest.approx(share / 10, abs=0.04 if share > 1 else 0.03)


def test_a_hyperparameter_grows_or_shrinks_within_its_bounds():
    member = Member.first(nursery("dqn"), 0)
    interval = {"learn_step": BoundsCfg(min=1, max=120, shrink=0.75, grow=1.5)}
    for selection, key, now, expected in (
        (LR, "learning_rate", 1e-3, {0.8e-3, 1.2e-3}),
        (LR, "learning_rate", 9e-3, {0.8 * 9e-3, 1e-2}),
        (interval, "update_interval", 100, {75, 120}),
        (interval, "update_interval", 1, {1, 2}),
    ):
        values = {**member.genes.hyperparameters, key: now}
        member.genes = dataclasses.replace(member.genes, hyperparameters=values)
        mutations = mutations_of(ONLY | {"rl_hp": 1.0}, selection)
        new = {mutations.draw(member).genes.hyperparameters[key] for _ in range(40)}
        assert sorted(new) == pytest.approx(sorted(expected))


def test_noise_changes_a_tenth_of_some_matrices_of_the_policy_alone():
    member = Member.first(nursery("sac"), 0)
    before = copy.deepcopy({role: model.net for role, model in member.learner.agent.models.items()})
    mutations = mutations_of(ONLY | {"parameters": 1.0, "mutation_sd": 0.1}, seed=4)
    change = mutations.draw(member)
    member.become(change)
    for role, model in member.learner.agent.models.items():
        pairs = zip(before[role].parameters(), model.net.parameters(), strict=True)
        shares = [float((old != new).float().mean()) for old, new in pairs if old.dim() == 2]
        noisy = change.noise if role == "policy" else ()
        for position, share in enumerate(shares):
            assert share == (pytest.approx(0.1, abs=0.04) if position in noisy else 0.0)


def test_noise_has_three_bands():
    weight = torch.full((400, 400), 2.0)
    add_noise(weight, 0.1, torch.Generator().manual_seed(0))
    changed = weight[weight != 2.0]
    moved = (changed - 2.0).abs()
    assert changed.numel() / weight.numel() == pytest.approx(0.1, abs=0.005)
    # Small: sd 0.2; reset: around 0 with sd 1, so 2 away; super: sd 20.
    assert float((moved < 0.8).float().mean()) == pytest.approx(0.91, abs=0.03)
    assert float((moved > 6.0).float().mean()) == pytest.approx(0.05 * 0.76, abs=0.01)


def test_shapes_stay_within_their_bounds_and_reach_them():
    bounds = NetworkCfg(max_layers=3, max_units=200, min_units=32, max_channels=64)
    rng = np.random.default_rng(0)
    shape = Architecture(
        hidden=(64,), activation="relu", channels=(16,), kernels=(3,), strides=(2,)
    )
    seen = [shape]
    for _ in range(600):
        shape, text = shape.mutated(bounds, 0.3, rng)
        assert shape != seen[-1], text
        seen.append(shape)
    layers = [len(one.hidden) for one in seen]
    units = [size for one in seen for size in one.hidden]
    channels = [size for one in seen for size in one.channels]
    assert (min(layers), max(layers), min(units), max(units)) == (1, 3, 32, 200)
    assert (min(channels), max(channels)) == (16, 64)
    assert {kernel for one in seen for kernel in one.kernels} == {3, 5, 7}
    assert all(len(one.channels) == len(one.kernels) == len(one.strides) for one in seen)


def test_activations_change_where_agilerl_changes_them():
    for algorithm, changes in (("dqn", True), ("ppo", False), ("td3", False)):
        member = Member.first(nursery(algorithm), 0)
        before = outputs(member)
        mutations = mutations_of(ONLY | {"activation": 1.0})
        member.become(mutations.draw(member))
        assert (member.genes.architecture.activation != "relu") == changes
        assert (member.mutation != "none") == changes
        for role, values in outputs(member).items():
            assert torch.equal(values, before[role]) != changes


def test_seeds_of_evolution_leave_the_generators_of_training_alone():
    """AgileRL's ``rand_seed`` seeds those of the whole process."""
    member = Member.first(nursery("dqn"), 0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    mutations = mutations_of(ONLY | {"architecture": 0.5, "parameters": 0.5}, seed=1)
    for _ in range(4):
        member.become(mutations.draw(member))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()
    assert random.getstate() == before[2]
