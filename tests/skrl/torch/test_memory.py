"""A memory with cheap batches draws the same as skrl's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.errors import ConfigurationError
from envlab.skrl.torch.memory import QuickMemory, RandomMemory
from envlab.state import Share


def filled(kind: type[Any], **values: Any) -> Any:
    memory = kind(memory_size=10, num_envs=3, device="cpu", **values)
    memory.create_tensor("observations", size=2, dtype=torch.float32)
    for step in range(7):
        memory.add_samples(observations=torch.full((3, 2), float(step)))
    return memory


@pytest.mark.parametrize("mini_batches", [1, 3])
def test_samples_are_those_of_skrl_with_replacement_and_mini_batches_their_parts(mini_batches: int):
    parts, names = [], ["observations", "states"]
    for memory in (filled(QuickMemory), filled(RandomMemory, replacement=True)):
        torch.manual_seed(0)
        parts.append(memory.sample(names, batch_size=500, mini_batches=mini_batches))
    assert [len(part[0]) for part in parts[0]] == ([167, 167, 166] if mini_batches == 3 else [500])
    for (mine, states), (skrls, _) in zip(*parts, strict=True):
        assert torch.equal(mine, skrls)
        assert states is None
    assert parts[0][0][0].unique().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_memory_that_the_machine_does_not_have_is_refused_before_it_is_filled():
    memory = QuickMemory(memory_size=10**5, num_envs=2, device="cpu")
    assert memory.create_tensor("states", size=None) is False
    with pytest.raises(ConfigurationError, match=r"200,000 actions takes 8,000 GB"):
        memory.create_tensor("actions", size=10**7, dtype=torch.float32)


def test_without_replacement_a_batch_of_all_holds_each_transition_once():
    memory = filled(QuickMemory, replacement=False)
    (batch,) = memory.sample(["observations"], batch_size=21)[0]
    assert batch[:, 0].sort().values.tolist() == [float(step) for step in range(7) for _ in "123"]


def test_a_memory_restores_the_contents_of_another():
    memory, other = filled(QuickMemory), QuickMemory(memory_size=10, num_envs=3, device="cpu")
    other.create_tensor("observations", size=2, dtype=torch.float32)
    other.set_state(memory.state())
    for one in (memory, other):
        one.add_samples(observations=torch.full((3, 2), 7.0))
    assert len(other) == len(memory) == 24
    assert torch.equal(
        other.tensors_view["observations"][:24], memory.tensors_view["observations"][:24]
    )


@pytest.mark.parametrize(("size", "steps"), [(10, [3, 4, 5, 6]), (3, [4, 5, 6])])
def test_a_memory_is_dealt_by_environment_and_keeps_the_newest_steps(size: int, steps: list[int]):
    saved = []
    for rank in range(2):
        memory = QuickMemory(memory_size=4, num_envs=2, device="cpu")
        memory.create_tensor("observations", size=1, dtype=torch.float32)
        for step in range(7):
            envs = torch.tensor([[2.0 * rank], [2.0 * rank + 1.0]])
            memory.add_samples(observations=10.0 * envs + step)
        saved.append(memory.state())
    found = QuickMemory(memory_size=size, num_envs=4, device="cpu")
    found.create_tensor("observations", size=1, dtype=torch.float32)
    found.set_state(found.deal(*Share(0, 4, 2).within(saved)))
    assert len(found) == 4 * len(steps)
    assert found.tensors["observations"][: len(steps), :, 0].tolist() == [
        [10 * env + step for env in range(4)] for step in steps
    ]
    found.add_samples(observations=torch.full((4, 1), -1.0))
    assert (found.tensors["observations"][len(steps) % size] == -1.0).all()


def test_combined_experience_replay_holds_the_newest_step_of_each_environment():
    memory = filled(QuickMemory, use_cer=True)
    torch.manual_seed(0)
    (batch,) = memory.sample(["observations"], batch_size=8)[0]
    assert batch[:3, 0].tolist() == [6.0, 6.0, 6.0]
