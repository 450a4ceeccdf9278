"""CrossQ's values, its batch norms and its specs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch

from envlab_populations.hogwild.batch_renorm import BatchRenorm
from envlab_populations.hogwild.crossq import judged_together
from tests.populations.hogwild.test_slm_lab import (
    arc,
    changed,
    learner_of,
    plan_of,
    restored,
    trained,
)

ADAM = {"name": "Adam", "lr": 1e-2}
LAYERS = ({"LazyLinear": {"out_features": 16}}, "ReLU")
NORM = {"LazyBatchRenorm1d": {"momentum": 0.01, "eps": 0.001, "warmup_steps": 50}}
ALGORITHM = {"name": "CrossQ", "gamma": 0.9, "policy_delay": 3, "log_alpha_max": 0.5}
CROSSQ: dict[str, Any] = {
    "agent": {
        "algorithm": ALGORITHM | {"training_iter": 2, "training_start_step": 16},
        "memory": {"name": "Replay", "batch_size": 8, "max_size": 1000},
        "net": arc(*LAYERS) | {"optim_spec": ADAM},
        "critic_net": arc(LAYERS[0], NORM, "ReLU") | {"optim_spec": ADAM},
    },
    "env": {"name": "Pendulum-v1", "num_envs": 2, "max_frame": 100},
    "meta": {"log_frequency": 50},
}


def of_choices() -> dict[str, Any]:
    """Return the spec for an environment of discrete actions, with clipped gradients."""
    spec = changed(CROSSQ, env={"name": "CartPole-v1"}, net={"clip_grad_val": 0.5})
    spec["agent"]["critic_net"]["clip_grad_val"] = 0.5
    return spec


def test_a_batch_is_normalised_and_corrected_towards_the_running_statistics():
    norm, x = BatchRenorm(1, 0.0, 0.1, 10), torch.tensor([[1.0], [3.0]])
    assert norm(x).flatten().tolist() == [-1.0, 1.0]  # initially, batch normalisation
    assert norm.running_mean.item() == pytest.approx(0.2)
    assert norm.running_var.item() == pytest.approx(1.0)
    # The batch has mean 2 and deviation 1, the running ones are 1 and 2: r is 1/2 and d 1/2 where
    # bounds allow it. They are 3 and 5 after ten steps, and 1.2 and 0.5 after one.
    for step, expected in ((10, [0.0, 1.0]), (1, [-1 / 1.2 + 0.5, 1 / 1.2 + 0.5])):
        norm.running_mean.fill_(1.0)
        norm.running_var.fill_(4.0)
        norm.step.fill_(step)
        assert norm(x).flatten().tolist() == pytest.approx(expected)
        assert norm.step.item() == step + 1
    norm.running_mean.fill_(1.0)
    norm.running_var.fill_(4.0)
    assert norm.eval()(x).flatten().tolist() == [0.0, 1.0]
    assert (norm.running_mean.item(), norm.step.item()) == (1.0, 2)


def test_critics_see_current_and_next_actions_in_one_batch():
    agent = learner_of(CROSSQ).agent
    draw = torch.Generator().manual_seed(0)
    now = {"observations": torch.rand(8, 3, generator=draw), "taken_actions": torch.ones(8, 1)}
    then = {"observations": torch.rand(8, 3, generator=draw), "taken_actions": -torch.ones(8, 1)}
    net, unit = agent.critic_1.net, torch.tensor([[0.5]] * 8 + [[-0.5]] * 8)  # of ±2
    hidden = net[0](torch.cat((torch.cat((now["observations"], then["observations"])), unit), 1))
    normal = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + 0.001).sqrt()
    expected = net[-1](normal.relu())
    (current,), (following,) = judged_together([agent.critic_1], now, then)
    assert torch.allclose(torch.cat((current, following)), expected, atol=1e-5)
    assert current.requires_grad
    assert not following.requires_grad
    assert not agent.critic_1.training


def test_targets_are_the_smaller_soft_value_of_the_same_pass():
    agent = learner_of(CROSSQ).agent
    draw = torch.Generator().manual_seed(0)
    seen, following = (torch.rand(4, 3, generator=draw) for _ in range(2))
    actions, rewards = torch.zeros(4, 1), torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    ends = torch.tensor([[False], [False], [True], [True]])
    torch.manual_seed(3)
    next_actions, outputs = agent.policy.act({"observations": following}, role="policy")
    now = {"observations": seen, "taken_actions": actions}
    then = {"observations": following, "taken_actions": next_actions.detach()}
    critics = deepcopy([agent.critic_1, agent.critic_2])
    current, future = judged_together(critics, now, then)
    alpha = 1.0  # the temperature's beginning
    soft = torch.minimum(*future) - alpha * outputs["log_prob"]
    targets = rewards + 0.9 * torch.where(ends, 0.0, soft)
    expected = sum((values - targets).square().mean() for values in current)
    torch.manual_seed(3)
    agent.learn_values(seen, actions, rewards, following, ends)
    assert agent.tracking_data["Loss / Critic loss"][-1] == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("spec", [CROSSQ, of_choices()], ids=["reals", "choices"])
def test_all_learns_without_targets_the_policy_at_times_and_a_checkpoint_holds_it(spec):
    learner = trained(spec)
    assert not [name for name in learner.agent.models if "target" in name]
    other = restored(spec, learner)
    norms = [one.agent.models["critic_1"].net[1] for one in (learner, other)]
    assert norms[0].step.item() == norms[1].step.item() > 0
    assert torch.equal(norms[0].running_mean, norms[1].running_mean)
    counters = learner.model_state()["counters"]
    assert other.model_state()["counters"] == counters
    # The policy learns every third time, by the running statistics.
    agent, done = learner.agent, counters["_update_counter"]
    agent.cfg.gradient_steps = 1
    weight, norm = agent.policy.net[0].weight, agent.models["critic_1"].net[1]
    for count in range(done + 1, done + 7):
        before, steps = weight.clone(), norm.step.item()
        agent.update(timestep=0, timesteps=1)
        assert torch.equal(weight, before) == (count % 3 != 0)
        assert norm.step.item() == steps + 1  # the policy's pass does not count


def test_norms_and_critics_are_read_from_a_spec():
    net = plan_of(CROSSQ).agent.net
    assert (net.layers, net.critic_layers) == ([16, "relu"], [16, "batch_renorm", "relu"])
    assert (net.norm_momentum, net.norm_eps, net.norm_warmup) == (0.01, 0.001, 50)
    plain = changed(CROSSQ, algorithm={"alpha_lr": 3e-5})
    plain["agent"]["net"] = {"hid_layers": [8], "batch_norm": True, "optim_spec": ADAM}
    del plain["agent"]["critic_net"]
    agent = plan_of(plain).agent
    assert agent.net.layers == [8, "batch_norm", "relu"]
    assert agent.settings["learning_rate"] == [1e-2, 1e-2, 3e-5]
    trained(plain)
