"""Losses and targets, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.errors import ConfigurationError
from envlab.fast_sac.cfg import ActorCfg, AlgorithmCfg, CriticCfg
from envlab.fast_sac.collection import ExplorationNoise, smoothed
from envlab.fast_sac.networks import Actor, Critics, GaussianActor
from envlab.fast_sac.objective import (
    critic_loss,
    policy_loss,
    project,
    target_values,
    temperature_loss,
)

ATOMS = torch.tensor([-1.0, 0.0, 1.0])


def test_a_distribution_is_moved_and_shared_among_the_nearest_atoms():
    for weights, reward, discount, expected in [
        ([0.0, 1.0, 0.0], 0.0, 0.5, [0.0, 1.0, 0.0]),
        ([0.0, 0.0, 1.0], 0.0, 0.5, [0.0, 0.5, 0.5]),  # 0.5 lies half way between two atoms
        ([0.5, 0.0, 0.5], 0.25, 1.0, [0.375, 0.125, 0.5]),  # -0.75, and 1.25 beyond the end
        ([0.2, 0.3, 0.5], 0.7, 0.0, [0.0, 0.3, 0.7]),  # the episode failed: the reward alone
        ([1.0, 0.0, 0.0], -9.0, 1.0, [1.0, 0.0, 0.0]),
        ([1.0, 0.0, 0.0], 2.0, 1.0, [0.0, 0.0, 1.0]),  # exactly on the last atom
    ]:
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


def target_of(critics: Critics, *, is_least: bool) -> torch.Tensor:
    given = (torch.tensor([0.25]), torch.tensor([0.5]), torch.zeros(1, 2), torch.zeros(1, 1))
    target, returns = target_values(critics, *given, is_least=is_least)
    if target.shape == returns.shape:  # scalar critics
        assert torch.equal(target, returns)
        return target.squeeze(-1)
    return target.squeeze(-2)


def test_scalar_critics_follow_their_own_targets_or_the_lesser_of_both():
    critics = critics_saying([2.0], [4.0])
    assert target_of(critics, is_least=False).tolist() == [0.25 + 0.5 * 2.0, 0.25 + 0.5 * 4.0]
    assert target_of(critics, is_least=True).tolist() == 0.25 + 0.5 * 2.0


def test_distributional_critics_follow_their_own_targets_or_that_of_the_lesser_mean():
    sure = 50.0
    critics = critics_saying([0.0, 0.0, sure], [sure, 0.0, 0.0])  # 1 and -1
    # 0.25 + 0.5 and 0.25 - 0.5, each among its nearest atoms: not a mixture of both.
    own = target_of(critics, is_least=False)
    assert own[0].tolist() == pytest.approx([0.0, 0.25, 0.75])
    assert own[1].tolist() == pytest.approx([0.25, 0.75, 0.0])
    assert target_of(critics, is_least=True).tolist() == pytest.approx([0.25, 0.75, 0.0])


def test_each_critic_loses_against_its_own_target():
    judged = torch.tensor([[[0.0, 0.0, 50.0]], [[50.0, 0.0, 0.0]]])  # sure of 1 and of -1
    own = torch.tensor([[[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]]])
    assert float(critic_loss(judged, own)) == pytest.approx(0.0)
    assert float(critic_loss(judged, own.flip(0))) == pytest.approx(100.0)
    scalar = torch.tensor([[[1.0]], [[3.0]]])
    assert float(critic_loss(scalar, torch.tensor([[1.0], [3.0]]))) == 0.0


def test_returns_beyond_the_atoms_are_known():
    critics = critics_saying([0.0, 0.0, 50.0], [0.0, 0.0, 50.0])  # a return of 1, the last atom
    states, actions = torch.zeros(1, 2), torch.zeros(1, 1)
    reward, discount = torch.tensor([0.5]), torch.tensor([0.9])
    target, returns = target_values(critics, reward, discount, states, actions, is_least=True)
    assert target.tolist() == [pytest.approx([0.0, 0.0, 1.0])]
    assert returns.tolist() == pytest.approx([1.4])


def test_critics_lose_by_cross_entropy_or_by_half_the_squared_error():
    judged = torch.zeros(2, 1, 3)
    target = torch.tensor([[0.25, 0.5, 0.25]])
    assert float(critic_loss(judged, target)) == pytest.approx(2.0 * math.log(3.0))
    scalar = torch.tensor([[[1.0], [2.0]], [[3.0], [2.0]]])
    # 0.5 * ((1 + 0) / 2 + (1 + 0) / 2) for targets of 2 and 2.
    assert float(critic_loss(scalar, torch.tensor([2.0, 2.0]))) == pytest.approx(0.5)


def test_the_policy_is_to_raise_value_and_entropy():
    critics = critics_saying([2.0], [4.0])
    given = (torch.zeros(2, 2), torch.zeros(2, 1), torch.tensor([-1.0, -3.0]), torch.tensor(0.1))
    for is_least, value in ((False, 3.0), (True, 2.0)):
        loss = policy_loss(critics, *given, is_least=is_least)
        assert loss.item() == pytest.approx(0.1 * -2.0 - value)


def test_the_temperature_rises_where_entropy_is_below_its_target():
    for entropy, rises in ((0.5, True), (1.5, False)):
        log_temperature = torch.tensor(-1.0, requires_grad=True)
        temperature_loss(log_temperature, torch.tensor([-entropy]), 1.0).backward()
        assert (float(log_temperature.grad) < 0.0) == rises  # a step goes against the gradient


def test_both_critics_equal_two_networks_of_torchs_layers():
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
    actor = GaussianActor(4, 2, ActorCfg(init_std=0.25))
    obs = torch.randn(4000, 4)
    actions, log_probs = actor(obs)
    assert actions.abs().max() < 1.0
    assert actions.atanh().std(dim=0).tolist() == pytest.approx([0.25] * 2, rel=0.05)
    assert actor.best(obs).abs().max() < 0.05
    assert log_probs.shape == (4000,)


def test_td3s_policy_is_deterministic_and_without_a_density():
    torch.manual_seed(0)
    actor = Actor(4, 2, ActorCfg())
    obs = torch.randn(8, 4)
    actions, log_probs = actor(obs)
    assert torch.equal(actions, actor.best(obs))
    assert log_probs.tolist() == [0.0] * 8


def test_each_environment_explores_with_its_own_deviation_until_its_episode_ends():
    torch.manual_seed(0)
    noise = ExplorationNoise(AlgorithmCfg(noise_std_max=0.2), 400, torch.device("cpu"))
    assert float(noise.deviations.min()) >= 0.001
    assert float(noise.deviations.max()) <= 0.2
    assert float(noise.deviations.mean()) == pytest.approx(0.1, abs=0.01)  # uniform
    drawn = torch.stack([noise.added(torch.zeros(400, 3)) for _ in range(200)])
    torch.testing.assert_close(
        drawn.std(dim=(0, 2)), noise.deviations.squeeze(1), rtol=0.15, atol=0
    )
    before, ended = noise.deviations.clone(), torch.arange(400) % 2 == 0
    noise.renew(ended)
    assert torch.equal(noise.deviations[~ended], before[~ended])
    assert not torch.isclose(noise.deviations[ended], before[ended]).all()
    assert float(noise.added(torch.ones(400, 3)).max()) == 1.0


def test_target_actions_are_smoothed_by_clipped_noise():
    torch.manual_seed(0)
    actions = torch.tensor([[0.0], [0.9]]).expand(2, 10_000)
    found = smoothed(actions, AlgorithmCfg(target_noise_std=0.2, target_noise_clip=0.3))
    # A Gaussian clipped at 1.5 deviations has 0.883 of its deviation (by integration).
    assert float(found[0].std()) == pytest.approx(0.2 * 0.883, rel=0.02)
    assert float(found[0].abs().max()) == pytest.approx(0.3)
    assert float(found[1].max()) == 1.0


def test_a_range_of_noise_the_wrong_way_round_is_refused():
    with pytest.raises(ConfigurationError, match=r"noise_std_min is 0\.5, above .* \(0\.4\)"):
        AlgorithmCfg(noise_std_min=0.5)
