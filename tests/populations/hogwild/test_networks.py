"""Networks of a session do what skrl's would, and what skrl lacks."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.skrl.env import Spaces
from envlab.skrl.torch.heads import Head, Model
from envlab_populations.hogwild.cfg import HogwildCfg, NetCfg
from envlab_populations.hogwild.networks import make_networks

CPU = torch.device("cpu")
SEEN = Spaces(
    spaces.Box(-np.inf, np.inf, (5,)),
    None,
    spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)),
)


def networks(algorithm: str) -> dict[str, Head]:
    cfg = HogwildCfg(algorithm=algorithm, net=NetCfg(hidden_layers=[16]))
    return make_networks(cfg, SEEN, CPU, DistributedContext())


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


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg"])
def test_random_actions_are_within_bounds_and_follow_the_seed(algorithm: str):
    policy = networks(algorithm)["policy"]
    inputs = {"observations": torch.zeros(1000, 5)}
    torch.manual_seed(3)
    first = policy.random_act(inputs)[0]
    torch.manual_seed(3)
    assert torch.equal(first, policy.random_act(inputs)[0])
    assert first.min(dim=0).values.tolist() == pytest.approx([-2.0, 0.0], abs=0.02)
    assert first.max(dim=0).values.tolist() == pytest.approx([2.0, 1.0], abs=0.02)
