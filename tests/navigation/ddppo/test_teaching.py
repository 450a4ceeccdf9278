"""Losses other than PPO's, against hand-computed numbers, and an expert that acts for the agent."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gymnasium import spaces

from envlab_navigation.ddppo.auxiliary import CpcA, InverseDynamics
from envlab_navigation.ddppo.distributions import Choices
from envlab_navigation.ddppo.imitation import A2C, Imitation
from envlab_navigation.ddppo.storage import Batch, Output
from envlab_navigation.ddppo.teacher import Teacher


def choice(probabilities: torch.Tensor) -> Choices:
    """Return the distribution of one choice between two options, ``(steps, envs, 2)``."""
    return Choices(probabilities.log(), [2])


def batch_of(num_steps: int, num_envs: int, **changes: Any) -> Batch:
    zeros = torch.zeros(num_steps, num_envs)
    actions = torch.zeros(num_steps, num_envs, 1, dtype=torch.int64)
    values: dict[str, Any] = dict.fromkeys(("log_probs", "values", "returns"), zeros)
    values |= dict.fromkeys(("raw_advantages", "advantages"), zeros)
    values |= {"obs": {}, "previous_actions": actions, "starts": zeros.bool(), "actions": actions}
    return Batch(**values | {"memory": torch.zeros(num_envs, 1)} | changes)


def output_of(num_steps: int, num_envs: int, **changes: Any) -> Output:
    values: dict[str, Any] = {
        "distribution": choice(torch.full((num_steps, num_envs, 2), 0.5)),
        "values": torch.zeros(num_steps, num_envs),
        "features": torch.zeros(num_steps, num_envs, 1),
        "beliefs": torch.zeros(num_steps, num_envs, 1),
    }
    return Output(**values | changes)


def test_imitation_is_the_cross_entropy_where_the_expert_knows() -> None:
    probabilities = torch.tensor([[[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]])
    expert = torch.tensor([[[1], [0], [-1]]])
    batch = batch_of(1, 3, expert_actions=expert, actions=torch.tensor([[[1], [1], [1]]]))
    output = output_of(1, 3, distribution=choice(probabilities))
    loss, measured = Imitation().loss(0, batch, output)
    assert float(loss) == pytest.approx(-(math.log(0.75) + math.log(0.5)) / 2)
    assert float(measured["expert_agreement"]) == 0.5


def test_a2c_follows_advantages_that_are_not_normalised() -> None:
    raw, returns = torch.tensor([[2.0, -1.0]]), torch.tensor([[3.0, 1.0]])
    batch = batch_of(1, 2, raw_advantages=raw, returns=returns, advantages=raw * 99.0)
    loss, _ = A2C(value_loss_coef=0.5, entropy_coef=0.1).loss(0, batch, output_of(1, 2))
    action = -(2.0 - 1.0) / 2 * math.log(0.5)
    assert float(loss) == pytest.approx(action + 0.5 * 0.5 * (9 + 1) / 2 - 0.1 * math.log(2.0))


def test_inverse_dynamics_looks_at_no_pair_across_two_episodes() -> None:
    loss = InverseDynamics(hidden_dim=4)
    loss.prepare(3, 1, spaces.Discrete(2))
    features = torch.randn(3, 2, 3)
    starts = torch.tensor([[False, False], [False, True], [False, False]])
    actions = torch.tensor([[[0], [1]], [[1], [1]], [[0], [0]]])
    batch = batch_of(3, 2, starts=starts, actions=actions)
    value, _ = loss.loss(0, batch, output_of(3, 2, features=features))
    pairs = [(0, 0, 0), (1, 0, 1), (1, 1, 1)]  # step, environment, action; not step 0 of the second
    by_hand = [
        torch.nn.functional.cross_entropy(
            loss.net(torch.cat((features[t, n], features[t + 1, n]))), torch.tensor(action)
        )
        for t, n, action in pairs
    ]
    assert value.item() == pytest.approx(torch.stack(by_hand).mean().item(), rel=1e-5)


@pytest.mark.parametrize("space", [spaces.Discrete(2), spaces.Box(-1.0, 1.0, (1,))])
def test_contrastive_prediction_learns_the_effect_of_actions(space: spaces.Space) -> None:
    """The feature at the next step is the action just taken; noise cannot be learned."""
    actions = torch.randint(2, (16, 8, 1))
    learnable = torch.cat((torch.zeros(1, 8, 1), actions[:-1].float()))
    final = {}
    for name, features in (("learnable", learnable), ("noise", torch.randn(16, 8, 1))):
        loss = CpcA(planning_steps=2, subsample_rate=1.0)
        loss.prepare(1, 8, space)
        optimizer = torch.optim.Adam(loss.parameters(), lr=0.03)
        taken = actions if isinstance(space, spaces.Discrete) else actions.float()
        batch = batch_of(16, 8, actions=taken)
        output = output_of(16, 8, features=features * 4.0, beliefs=torch.zeros(16, 8, 8))
        for _ in range(60):
            value, _ = loss.loss(0, batch, output)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        final[name] = float(value)
    # A negative is the true feature half of the time: then the best is ln 2 for these.
    assert final["learnable"] < 0.56 < 0.62 < final["noise"]


def test_contrastive_prediction_ends_with_the_episode() -> None:
    loss = CpcA(planning_steps=4, subsample_rate=1.0)
    loss.prepare(1, 4, spaces.Discrete(2))
    batch = batch_of(5, 2, starts=torch.ones(5, 2, dtype=torch.bool))
    value, _ = loss.loss(0, batch, output_of(5, 2, beliefs=torch.zeros(5, 2, 4)))
    assert float(value.detach()) == 0.0
    value.backward()  # all parameters have gradients, as DDP needs
    assert all(one.grad is not None for one in loss.parameters())


def test_teacher_acts_for_the_share_that_is_asked_and_where_it_knows() -> None:
    own, advice = torch.zeros(1000, 1).long(), torch.ones(1000, 1).long()
    advice[-1] = -1  # none for the last environment
    taken: list[torch.Tensor] = []
    expert: Any = SimpleNamespace(act=lambda: advice, note_taken=taken.append)
    teacher = Teacher(expert)
    for share, expected in ((0.0, 0.0), (0.3, pytest.approx(0.3, abs=0.03)), (1.0, 0.999)):
        assert int(teacher.mix(own, teacher.advise(), share).sum()) / 1000 == expected
    assert taken[-1][-1] == 0
