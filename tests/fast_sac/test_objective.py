"""Losses and targets, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.fast_sac.cfg import ActorCfg, CriticCfg
from envlab.fast_sac.networks import Actor, Critics
from envlab.fast_sac.objective import (
    critic_loss,
    policy_loss,
    project,
    target_values,
    temperature_loss,
)

ATOMS = torch.tensor([-1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("weights", "reward", "discount", "expected"),
    [
        ([0.0, 1.0, 0.0], 0.0, 0.5, [0.0, 1.0, 0.0]),
        ([0.0, 0.0, 1.0], 0.0, 0.5, [0.0, 0.5, 0.5]),  # 0.5 lies half way between two atoms
        ([0.5, 0.0, 0.5], 0.25, 1.0, [0.375, 0.125, 0.5]),  # -0.75, and 1.25 beyond the end
        ([0.2, 0.3, 0.5], 0.7, 0.0, [0.0, 0.3, 0.7]),  # the episode failed: the reward alone
        ([1.0, 0.0, 0.0], -9.0, 1.0, [1.0, 0.0, 0.0]),
        ([1.0, 0.0, 0.0], 2.0, 1.0, [0.0, 0.0, 1.0]),  # exactly on the last atom
    ],
)
def test_a_distribution_is_moved_and_shared_among_the_nearest_atoms(
    weights, reward, discount, expected
):
    projected = project(
        torch.tensor([weights]), torch.tensor([reward]), torch.tensor([discount]), ATOMS
    )
    assert projected[0].tolist() == pytest.approx(expected, abs=1e-6)


def critics_saying(*logits: list[float]) -> Critics:
    """Return two critics with constant answers."""
    is_distributional = len(logits[0]) > 1
    cfg = CriticCfg(hidden_dims=[4], distributional=is_distributional, num_atoms=3, v_max=1.0)
    critics = Critics(2, 1, cfg, 0.1)
    with torch.no_grad():
        critics.layers[-1].weight.zero_()  # type: ignore[union-attr,operator]
        critics.layers[-1].bias.copy_(torch.tensor(logits).unsqueeze(1))  # type: ignore[union-attr,operator]
    return critics


def target_of(critics: Critics, *, is_least: bool) -> list[float]:
    target = target_values(
        critics,
        torch.tensor([0.25]),
        torch.tensor([0.5]),
        torch.zeros(1, 2),
        torch.zeros(1, 1),
        is_least=is_least,
    )
    return target[0].tolist() if target.dim() == 2 else target.tolist()


def test_a_target_of_two_scalar_critics_is_that_of_their_mean_or_the_lesser():
    critics = critics_saying([2.0], [4.0])
    assert target_of(critics, is_least=False) == [0.25 + 0.5 * 3.0]
    assert target_of(critics, is_least=True) == [0.25 + 0.5 * 2.0]


def test_a_target_of_two_distributions_is_their_mixture_or_that_of_the_lesser_mean():
    sure = 50.0
    critics = critics_saying([0.0, 0.0, sure], [sure, 0.0, 0.0])  # 1 and -1
    # 0.25 + 0.5 and 0.25 - 0.5, each among its nearest atoms.
    assert target_of(critics, is_least=False) == pytest.approx([0.125, 0.5, 0.375])
    assert target_of(critics, is_least=True) == pytest.approx([0.25, 0.75, 0.0])


def test_critics_lose_by_cross_entropy_or_by_half_the_squared_error():
    judged = torch.zeros(2, 1, 3)
    target = torch.tensor([[0.25, 0.5, 0.25]])
    assert float(critic_loss(judged, target)) == pytest.approx(2.0 * math.log(3.0))
    scalar = torch.tensor([[[1.0], [2.0]], [[3.0], [2.0]]])
    # 0.5 * ((1 + 0) / 2 + (1 + 0) / 2) for targets of 2 and 2.
    assert float(critic_loss(scalar, torch.tensor([2.0, 2.0]))) == pytest.approx(0.5)


def test_the_policy_is_to_raise_value_and_entropy():
    critics = critics_saying([2.0], [4.0])
    log_probs, actions = torch.tensor([-1.0, -3.0]), torch.zeros(2, 1)
    for is_least, value in ((False, 3.0), (True, 2.0)):
        loss = policy_loss(
            critics,
            torch.zeros(2, 2),
            actions,
            log_probs,
            torch.tensor(0.1),
            is_least=is_least,
        )
        assert loss.item() == pytest.approx(0.1 * -2.0 - value)


def test_the_temperature_rises_where_entropy_is_below_its_target():
    for entropy, rises in ((0.5, True), (1.5, False)):
        log_temperature = torch.tensor(-1.0, requires_grad=True)
        temperature_loss(log_temperature, torch.tensor([-entropy]), 1.0).backward()
        assert (float(log_temperature.grad) < 0.0) == rises  # a step goes against the gradient


def test_both_critics_are_what_two_networks_of_torchs_layers_are():
    torch.manual_seed(0)
    critics = Critics(3, 2, CriticCfg(hidden_dims=[8, 6]), 0.1)
    obs, actions = torch.randn(5, 3), torch.randn(5, 2)
    judged = critics.judge(obs, actions)
    for number in range(2):
        x = torch.cat((obs, actions), dim=1)
        for layer in critics.layers:
            x = torch.nn.functional.linear(x, layer.weight[number].T, layer.bias[number, 0])
            if layer.gain is not None:
                shape, gain, shift = x.shape[1:], layer.gain[number, 0], layer.shift[number, 0]
                x = torch.nn.functional.layer_norm(x, shape, gain, shift)
                x = torch.nn.functional.silu(x)
        torch.testing.assert_close(judged[number], x)
    expected = judged.softmax(dim=2) @ torch.linspace(-5.0, 5.0, 51)
    torch.testing.assert_close(critics.values(judged), expected)


def test_a_policy_begins_with_the_deviation_it_is_given():
    torch.manual_seed(0)
    actor = Actor(4, 2, ActorCfg(init_std=0.25))
    obs = torch.randn(4000, 4)
    actions, log_probs = actor(obs)
    assert actions.abs().max() < 1.0
    assert actions.atanh().std(dim=0).tolist() == pytest.approx([0.25] * 2, rel=0.05)
    assert actor.best(obs).abs().max() < 0.05
    assert log_probs.shape == (4000,)
