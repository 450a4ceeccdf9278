"""Rollouts: estimates by hand-computed numbers, a rollout that is cut short, minibatches."""

from __future__ import annotations

import pytest
import torch

from envlab_navigation.ddppo.storage import Rollouts


def filled(rollouts: Rollouts, steps: int, num_envs: int = 2) -> Rollouts:
    """Store ``steps``: rewards 1, 2, ...; environment 0 ends after its second."""
    rollouts.begin(torch.arange(float(num_envs)).unsqueeze(1))
    for step in range(steps):
        zeros, ended = torch.zeros(num_envs), torch.zeros(num_envs, dtype=torch.bool)
        ended[0] = step == 1
        obs = {"vector": torch.full((num_envs, 3), float(step)) + torch.arange(num_envs)[:, None]}
        acted = {"actions": torch.full((num_envs, 1), step), "log_probs": zeros}
        acted |= {"previous_actions": zeros[:, None], "starts": zeros.bool()}
        rollouts.add(obs, **acted, values=zeros + 0.5, rewards=zeros + step + 1.0, ended=ended)
    return rollouts


def test_estimates_advantages_as_by_hand():
    rollouts = filled(Rollouts(3), 3)
    advantages = rollouts.finish(torch.tensor([10.0, 10.0]), gamma=0.5, gae_lambda=0.5)
    # The last step: 3 + 0.5 * 10 - 0.5. The second: of an episode's end 2 - 0.5, else
    # 2 + 0.25 - 0.5 + 0.25 * 7.5. The first: 1 + 0.25 - 0.5 + 0.25 * the second's.
    expected = torch.tensor([[1.125, 1.65625], [1.5, 3.625], [7.5, 7.5]])
    torch.testing.assert_close(advantages, expected)


@pytest.mark.parametrize("steps", [2, 3, 5])
def test_a_rollout_cut_short_is_as_one_of_that_length(steps):
    """Nothing of a longer rollout before it remains."""
    last = torch.tensor([1.0, 2.0])
    used = filled(Rollouts(5), 5)
    used.finish(last, 0.99, 0.95)
    again, alone = filled(used, steps), filled(Rollouts(steps), steps)
    for rollouts in (again, alone):
        rollouts.normalise(rollouts.finish(last, 0.99, 0.95).mean(), torch.tensor(1.0))
    torch.manual_seed(0)
    (first,) = again.minibatches(1)
    torch.manual_seed(0)
    (second,) = alone.minibatches(1)
    assert len(first.returns) == steps
    for name in ("returns", "advantages", "actions", "memory"):
        assert torch.equal(getattr(first, name), getattr(second, name))


def test_each_environment_is_in_one_minibatch_with_its_own_memory():
    torch.manual_seed(1)
    rollouts = filled(Rollouts(4), 3, num_envs=7)
    rollouts.normalise(rollouts.finish(torch.zeros(7), 0.9, 0.9).mean(), torch.tensor(1.0))
    batches = list(rollouts.minibatches(3))
    assert [batch.actions.shape[1] for batch in batches] == [3, 2, 2]
    seen = torch.cat([batch.memory[:, 0] for batch in batches])
    assert sorted(seen.tolist()) == list(range(7))
    for batch in batches:
        torch.testing.assert_close(batch.obs["vector"][0, :, 0], batch.memory[:, 0])
