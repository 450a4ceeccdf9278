"""Transitions are drawn by their priorities, which follow the errors of DQN's values."""

from __future__ import annotations

import pytest
import torch

from envlab_populations.hogwild.prioritized import PrioritizedMemory, SumTree
from tests.populations.hogwild.test_slm_lab import DQN, changed, restored, trained

PRIORITIZED = {"name": "PrioritizedReplay", "alpha": 0.5, "epsilon": 0.01}


def test_a_tree_finds_the_row_where_the_sums_pass_a_share():
    tree = SumTree(5, "cpu")
    tree.write(torch.arange(5), torch.tensor([1.0, 0.0, 3.0, 2.0, 4.0]))
    # The sums are 1, 1, 4, 6 and 10.
    shares = torch.tensor([0.0, 0.09, 0.1, 0.39, 0.4, 0.59, 0.6, 0.99, 1.0])
    assert tree.find(shares.double()).tolist() == [0, 0, 2, 2, 3, 3, 4, 4, 4]
    tree.write(torch.tensor([4, 0]), torch.tensor([0.0, 0.0]))  # 0, 0, 3, 5 and 5
    assert tree.find(torch.tensor([0.0, 0.59, 0.61, 1.0])).tolist() == [2, 2, 3, 3]


def test_batches_hold_transitions_in_proportion_to_their_priorities():
    memory = PrioritizedMemory(alpha=0.5, epsilon=0.0, memory_size=3, num_envs=2, device="cpu")
    memory.create_tensor(name="rewards", size=1, dtype=torch.float32)
    for number in range(4):  # the last takes the place of the first
        memory.add_samples(rewards=torch.tensor([[2.0 * number], [2.0 * number + 1]]))
    memory.rows = torch.arange(6)
    memory.learn(torch.tensor([[1.0], [-4.0], [0.0], [9.0], [16.0], [0.0]]))
    torch.manual_seed(0)
    (drawn,) = memory.sample(["rewards"], batch_size=100_000)[0]
    counts = torch.bincount(drawn.squeeze(1).long(), minlength=8) / 100_000
    # Priorities 1, 2, 0, 3, 4, 0 of the transitions 6, 7, 2, 3, 4, 5.
    expected = [0.0, 0.0, 0.0, 0.3, 0.4, 0.0, 0.1, 0.2]
    assert counts.tolist() == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("name", ["DQN", "DoubleDQN"])
def test_dqn_learns_by_priorities_which_a_checkpoint_holds(name: str):
    spec = changed(DQN, algorithm={"name": name}, memory=PRIORITIZED)
    learner = trained(spec)
    memory = learner.agent.memory
    priorities = memory.tensors_view["priorities"][: len(memory)]
    assert 0.1 <= float(priorities.median()) < 5.0  # a new one's would be 316
    # A batch more, whose errors are those that its loss is of.
    seen: list[torch.Tensor] = []
    learn = memory.learn
    memory.learn = lambda errors: seen.append(errors) or learn(errors)
    learner.agent.cfg.gradient_steps = 1
    learner.agent.update(timestep=100, timesteps=100)
    loss = learner.agent.tracking_data["Loss / Q-network loss"][-1]
    assert float(seen[0].detach().square().mean()) == pytest.approx(loss)
    other = restored(spec, learner)
    torch.manual_seed(5)
    drawn = memory.draw(1000)
    torch.manual_seed(5)
    assert torch.equal(drawn, other.agent.memory.draw(1000))
    assert bool((drawn < len(memory)).all())


def test_the_error_of_two_critics_is_that_of_the_smaller_value():
    spec = changed(
        DQN,
        algorithm={"name": "SoftActorCritic"},
        memory=PRIORITIZED,
        net={"update_type": "polyak", "update_frequency": 1},
        env={"name": "Pendulum-v1"},
    )
    agent = trained(spec).agent
    errors: list[torch.Tensor] = []
    agent.memory.learn = errors.append
    loss = agent.update.__func__.__globals__["F"].mse_loss
    targets = torch.tensor([[10.0], [20.0]])
    loss(torch.tensor([[1.0], [5.0]]), targets)
    assert errors == []
    loss(torch.tensor([[3.0], [2.0]]), targets)
    assert errors[0].flatten().tolist() == [9.0, 18.0]
