"""Draws from the replay memory, by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.errors import CheckpointError, ConfigurationError
from envlab.fast_sac.replay import Batch, Replay
from envlab.state import Share

GAMMA = 0.5


def make(
    num_steps: int = 4, num_envs: int = 1, n_step: int = 1, num_sharing: int = 1, **sizes: int
) -> Replay:
    return Replay(
        num_steps * num_envs,
        num_envs,
        sizes or {"obs": 1},
        num_actions=1,
        gamma=GAMMA,
        n_step=n_step,
        device=torch.device("cpu"),
        num_sharing=num_sharing,
    )


def add(replay: Replay, number: int, *, failed: bool = False, cut: bool = False) -> None:
    """Add a step of one environment from observation ``number`` to ``number + 0.5``."""
    replay.add(
        {"obs": torch.tensor([[float(number)]])},
        torch.tensor([[float(number)]]),
        torch.tensor([10.0**number]),
        torch.tensor([failed]),
        torch.tensor([cut]),
        {"obs": torch.tensor([[number + 0.5]])},
    )


def drawn(replay: Replay) -> dict[float, tuple[float, float, float]]:
    """Return reward, discount and next observation by first observation, of many draws."""
    torch.manual_seed(0)
    batch: Batch = replay.sample(500)
    assert torch.equal(batch.obs, batch.actions)
    columns = (batch.obs[:, 0], batch.rewards, batch.discounts, batch.next_obs[:, 0])
    rows = zip(*(values.tolist() for values in columns), strict=True)
    return {first: tuple(rest) for first, *rest in rows}  # type: ignore[misc]


def test_only_a_failure_ends_future_rewards():
    replay = make()
    for number, ending in enumerate(({}, {"failed": True}, {"cut": True})):
        add(replay, number, **ending)
    assert drawn(replay) == {
        0.0: (1.0, GAMMA, 0.5),
        1.0: (10.0, 0.0, 1.5),
        2.0: (100.0, GAMMA, 2.5),  # a time limit: the last state's value counts
    }


def test_the_oldest_steps_make_room():
    replay = make(num_steps=3)
    for number in range(5):
        add(replay, number)
    assert sorted(drawn(replay)) == [2.0, 3.0, 4.0]
    assert replay.num_held == 3


def test_rewards_are_summed_until_an_episode_ends():
    replay = make(num_steps=8, n_step=3)
    for number, ending in enumerate(({}, {}, {"failed": True}, {}, {"cut": True}, {}, {})):
        add(replay, number, **ending)
    assert drawn(replay) == {
        0.0: (1.0 + 0.5 * 10.0 + 0.25 * 100.0, 0.0, 2.5),
        1.0: (10.0 + 0.5 * 100.0, 0.0, 2.5),
        2.0: (100.0, 0.0, 2.5),
        3.0: (1e3 + 0.5 * 1e4, 0.25, 4.5),
        4.0: (1e4, 0.5, 4.5),
        # 5 and 6 are too young to have three rewards.
    }


def test_sums_of_rewards_never_cross_the_newest_step():
    replay = make(num_steps=4, n_step=3)
    for number in range(6):  # holds 2, 3, 4, 5; after 5 comes 2
        add(replay, number)
    assert drawn(replay) == {
        2.0: (1e2 + 0.5 * 1e3 + 0.25 * 1e4, 0.125, 4.5),
        3.0: (1e3 + 0.5 * 1e4 + 0.25 * 1e5, 0.125, 5.5),
    }


def test_environments_are_drawn_alike_and_kept_apart():
    replay = make(num_steps=3, num_envs=2, n_step=2, obs=1, critic_obs=2)
    for number in range(3):
        obs = torch.tensor([[number], [10.0 + number]])
        replay.add(
            {"obs": obs, "critic_obs": obs.repeat(1, 2)},
            obs,
            obs[:, 0],
            torch.tensor([False, False]),
            torch.tensor([False, False]),
            {"obs": obs + 0.5, "critic_obs": obs.repeat(1, 2) + 0.5},
        )
    torch.manual_seed(0)
    batch = replay.sample(2000)
    assert torch.equal(batch.rewards, batch.obs[:, 0] + GAMMA * (batch.obs[:, 0] + 1.0))
    assert torch.equal(batch.critic_obs, batch.obs.repeat(1, 2))
    assert torch.equal(batch.next_critic_obs[:, :1], batch.next_obs)
    values, counts = batch.obs[:, 0].unique(return_counts=True)
    assert values.tolist() == [0.0, 1.0, 10.0, 11.0]
    assert counts.min() > 400


def filled() -> Replay:
    """Return a memory of three steps, which has come round."""
    replay = make(num_steps=3, n_step=2)
    for number in range(5):
        add(replay, number)
    return replay


def test_a_restored_memory_continues_like_the_original():
    replay, other = filled(), make(num_steps=3, n_step=2)
    other.set_state(replay.state())
    for one in (replay, other):
        add(one, 5)
    assert drawn(replay) == drawn(other)


def of_many(first: int, num_envs: int, num_steps: int, *, num_added: int = 5) -> Replay:
    """Return a memory whose observations are the environment's index, and a tenth of the step."""
    replay = make(num_steps=num_steps, num_envs=num_envs)
    envs = torch.arange(first, first + num_envs).float()
    for number in range(num_added):
        obs = (envs + number / 10).unsqueeze(1)
        flags = torch.zeros(num_envs, dtype=torch.bool)
        replay.add({"obs": obs}, obs, envs, flags, flags, {"obs": obs})
    return replay


@pytest.mark.parametrize(
    ("before", "now", "held"),
    [(1, 2, [[2, 3, 4], [2, 3, 4]]), (2, 1, [[2, 3, 4]]), (4, 2, [[3, 4], [3, 4]])],
)
def test_a_memory_is_dealt_by_environment_and_keeps_the_newest_steps(before, now, held):
    """A process's memory holds fewer steps of more environments, in either direction."""
    each, num_envs = 4 // before, 4 // now
    saved = [of_many(rank * each, each, 3).state() for rank in range(before)]
    for rank in range(now):
        share = Share(rank * num_envs, num_envs, each)
        replay = of_many(0, num_envs, len(held[rank]) if before == 4 else 4, num_added=0)
        replay.set_state(replay.deal(*share.within(saved)))
        steps = sorted(drawn(replay))
        expected = [
            env + step / 10
            for env in range(share.first, share.first + num_envs)
            for step in held[rank]
        ]
        assert steps == pytest.approx(expected)
        flags = torch.zeros(num_envs, dtype=torch.bool)
        new = torch.full((num_envs, 1), 9.0)
        for _ in range(2):  # the oldest make room first
            replay.add({"obs": new}, new, new[:, 0], flags, flags, {"obs": new})
        oldest = share.first + held[rank][0] / 10
        assert min(drawn(replay)) > oldest


DAMAGES: dict[str, dict[str, Any]] = {
    "num_added is -5, but must be from 0": {"num_added": -5},
    "num_added is 1000000000000000000, but": {"num_added": 10**18},
    "num_added is '5'": {"num_added": "5"},
    "num_added is True": {"num_added": True},
    r"obs has shape \(3, 1\), but \(2, 1\) fits 2 steps": {"num_added": 2},
    r"obs has shape \(3, 2\), but \(3, 1\) fits 5 steps and agent": {"obs": torch.zeros(3, 2)},
    r"obs has shape \(4, 1\)": {"obs": torch.zeros(4, 1)},
    "obs is not a tensor of torch.float32": {"obs": torch.zeros(3, 1, dtype=torch.float64)},
    "outcomes is not finite": {"outcomes": torch.full((3, 3), torch.nan)},
    "actions is not a tensor": {"actions": None},
}


def test_a_damaged_memory_is_one_sentence_and_changes_nothing():
    for message, change in DAMAGES.items():
        replay, other = filled(), filled()
        with pytest.raises(CheckpointError, match=f"replay memory of the checkpoint .*{message}"):
            other.set_state(replay.state() | change)
        assert drawn(replay) == drawn(other), message


def test_a_memory_of_another_size_is_not_taken_for_this_one():
    """One that has come round has not the steps that a longer one would still have."""
    replay, longer = filled(), make(num_steps=4, n_step=2)
    with pytest.raises(CheckpointError, match=r"fits 5 steps and agent\.replay\.size=4"):
        longer.set_state(replay.state())
    # One that is too short is refused at once.
    words = r"size is 2, but 3 steps of 1 environments .* at least 3"
    with pytest.raises(ConfigurationError, match=words):
        make(num_steps=2, n_step=3)


def test_a_memory_that_does_not_fit_is_refused_with_a_size_that_does(monkeypatch):
    """Processes share the memory of their machine."""
    size = r"Set agent\.replay\.size to"
    sizes = r"of 10,000,000 transitions takes 305\.2 MiB, but 304\.2 MiB are free on cpu\."
    for free, num_steps, num_sharing, most, words in [
        (319 * 10**6, 10**7, 1, 9968750, sizes),
        (320 * 10, 100, 2, 50, r"are free on cpu for each of 2 processes\."),
    ]:
        monkeypatch.setattr("envlab.fast_sac.replay.free_memory", lambda free=free: free)
        with pytest.raises(ConfigurationError, match=rf"{words} {size} {most} or less"):
            make(num_steps=num_steps, num_sharing=num_sharing, obs=2)
        make(num_steps=most, num_sharing=num_sharing, obs=2)
