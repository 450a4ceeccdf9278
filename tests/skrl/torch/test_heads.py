"""Heads do the same as skrl's models, and more."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.skrl.env import Spaces
from envlab.skrl.torch.heads import CategoricalMixin, Head, Model, make_heads

CPU = torch.device("cpu")
SEEN = Spaces(
    spaces.Box(-np.inf, np.inf, (5,)),
    None,
    spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)),
)


class Body(torch.nn.Module):
    def __init__(self, shape: Sequence[int], num_extra: int, num_outputs: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(math.prod(shape) + num_extra, num_outputs)

    def forward(self, obs: torch.Tensor, extra: torch.Tensor | None = None) -> torch.Tensor:
        return self.layer(obs if extra is None else torch.cat((obs, extra), dim=1))


def networks(algorithm: str, seen: Spaces = SEEN) -> dict[str, Head]:
    return make_heads(algorithm, seen, Body, CPU, DistributedContext())


def test_log_probabilities_stay_finite_where_tanh_is_flat():
    policy = networks("sac")["policy"]
    with torch.no_grad():
        list(policy.parameters())[-1].fill_(50.0)
    assert bool(policy.act({"observations": torch.zeros(4, 5)})[1]["log_prob"].isfinite().all())


def test_a_critics_weights_have_no_gradient_of_the_policys_loss():
    torch.manual_seed(0)
    critic = networks("sac")["critic_1"]
    inputs = {"observations": torch.randn(8, 5)}
    taken = torch.rand(8, 2, requires_grad=True)
    critic.compute({**inputs, "taken_actions": taken})[0].sum().backward()
    assert all(one.grad is None for one in critic.parameters())
    plain = taken.detach().requires_grad_()
    unit = (plain - torch.tensor([0.0, 0.5])) / torch.tensor([2.0, 0.5])
    critic.net(inputs["observations"], unit).sum().backward()
    assert torch.equal(taken.grad, plain.grad)  # the policy's is the same, bit for bit
    critic.compute({**inputs, "taken_actions": taken.detach()})[0].sum().backward()
    assert all(one.grad is not None for one in critic.parameters())


def test_targets_follow_by_skrls_rule():
    torch.manual_seed(0)
    made = networks("sac")
    source, target = made["critic_1"], made["target_critic_1"]
    expected = copy.deepcopy(target)
    target.update_parameters(source, polyak=0.01)
    Model.update_parameters(expected, source, polyak=0.01)
    for mine, skrls in zip(target.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, skrls)
    target.update_parameters(source, polyak=1.0)
    for mine, theirs in zip(target.parameters(), source.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_random_actions_are_within_bounds_and_follow_the_seed():
    for algorithm in ["sac", "td3", "ddpg"]:
        policy = networks(algorithm)["policy"]
        inputs = {"observations": torch.zeros(1000, 5)}
        torch.manual_seed(3)
        first = policy.random_act(inputs)[0]
        torch.manual_seed(3)
        assert torch.equal(first, policy.random_act(inputs)[0])
        assert first.min(dim=0).values.tolist() == pytest.approx([-2.0, 0.0], abs=0.02)
        assert first.max(dim=0).values.tolist() == pytest.approx([2.0, 1.0], abs=0.02)
    # Its own reach the bounds and no further.
    policy = networks("td3")["policy"]
    with torch.no_grad():
        policy.net.layer.bias.copy_(torch.tensor([50.0, -50.0]))
    actions, _ = policy.compute({"observations": torch.zeros(1, 5)})
    assert actions.tolist() == [[2.0, 0.0]]


def test_a_value_is_of_the_states_where_there_are_any():
    value = networks("ppo", SEEN._replace(state_space=spaces.Box(-1.0, 1.0, (3,))))["value"]
    inputs = {"observations": torch.zeros(2, 5), "states": torch.ones(2, 3)}
    expected = value.net(inputs["states"])
    assert torch.equal(value.compute(inputs)[0], expected)
    assert networks("ppo")["value"].compute(inputs)[0].shape == (2, 1)


def test_a_choice_among_actions_is_skrls():
    torch.manual_seed(0)
    policy = networks("a2c", SEEN._replace(action_space=spaces.Discrete(3)))["policy"]
    seen = {"observations": torch.randn(64, 5)}
    for inputs in (seen, seen | {"taken_actions": torch.randint(3, (64, 1))}):
        torch.manual_seed(1)
        actions, outputs = policy.act(inputs)
        entropy, probs = policy.get_entropy(), policy.distribution().probs
        torch.manual_seed(1)
        skrls, expected = CategoricalMixin.act(policy, inputs)
        assert torch.equal(actions, skrls)
        torch.testing.assert_close(outputs, expected)
        torch.testing.assert_close(entropy, CategoricalMixin.get_entropy(policy))
        torch.testing.assert_close(probs, CategoricalMixin.distribution(policy).probs)
