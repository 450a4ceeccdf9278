"""Non-finite values end an episode, once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from envlab.envs.nan_guard import FailureCounter, NanGuard
from envlab.sim import host

NONE = torch.zeros(3, dtype=torch.bool)


@pytest.mark.parametrize("kinds", [{"cpu"}, set()], ids=["on a CPU", "on a GPU"])
def test_an_observation_that_is_not_finite_ends_one_episode(kinds: set[str], monkeypatch):
    monkeypatch.setattr(host, "HOST", kinds)
    device = torch.device("cpu")
    data = SimpleNamespace(qpos=torch.zeros(3, 1), qvel=torch.zeros(3, 1))
    sim = SimpleNamespace(data=data, num_envs=3, device=device, bad=lambda: NONE)
    guard = NanGuard(sim, FailureCounter(3, 1.0, device, str))
    observations = {"policy": torch.tensor([[1.0], [torch.nan], [2.0]])}
    guard.look()
    guard.clean(observations)
    assert observations["policy"].tolist() == [[1.0], [0.0], [2.0]]
    ended, reward = guard.end_failed(NONE, torch.ones(3))
    assert (ended.tolist(), reward.tolist()) == ([False, True, False], [1.0, 0.0, 1.0])
    guard.clean({"policy": torch.ones(3, 1)})  # of the episodes that have begun since
    ended, reward = guard.end_failed(NONE, torch.tensor([1.0, 2.0, torch.inf]))
    assert (ended.tolist(), reward.tolist()) == ([False, False, True], [1.0, 2.0, 0.0])
