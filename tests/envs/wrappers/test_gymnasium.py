"""Gymnasium's own check, and loops as people write them, on envlab's environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from torch import nn

from envlab.envs.wrappers.gymnasium import GymnasiumEnvWrapper
from envlab.errors import ConfigurationError
from envlab.registry import discover

discover()


def make(task: str = "Isaac-Cartpole-v0", num_envs: int = 1) -> GymnasiumEnvWrapper:
    return GymnasiumEnvWrapper(gymnasium.make(task, num_envs=num_envs, device="cpu").unwrapped)


SHOWCASE = "Isaac-Cartpole-Showcase-Box-{}-Direct-v0"


@pytest.mark.parametrize(
    "task",
    [
        *("Isaac-Cartpole-v0", "Isaac-Ant-Direct-v0"),
        *(SHOWCASE.format(kind) for kind in ("Discrete", "MultiDiscrete")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(space m|symmetric and normalized|have a spec)")
def test_its_own_check_passes(task: str):
    check_env(make(task))


def test_a_batch_takes_a_seed_as_gymnasium_wants_it():
    """check_env looks at the generator that ``super().reset(seed=seed)`` makes."""
    env = gymnasium.make("Isaac-Cartpole-v0", num_envs=2, device="cpu").unwrapped
    env.reset(seed=123)
    assert env.np_random_seed == 123
    first = env.np_random.bit_generator.state
    env.reset(seed=[123, 123])
    assert env.np_random.bit_generator.state == first


def test_an_episode_ends_in_its_last_state_and_a_reset_returns_the_next_ones_first():
    env = make()
    env.reset(seed=1)
    env.env.episode_length_buf = torch.tensor([env.env.max_episode_length - 1])
    last, _, terminated, truncated, info = env.step(np.zeros(1))
    assert (terminated, truncated) == (False, True)
    assert "Episode_Reward/alive" in info["log"]
    first, _ = env.reset()
    assert not np.array_equal(last, first)
    assert np.array_equal(first, env.env.obs_buf["policy"][0])
    assert env.env.episode_length_buf.tolist() == [0]
    assert env.step(np.zeros(1))[4] == {}


def test_only_one_environment_is_a_plain_one():
    with pytest.raises(ConfigurationError, match=r"batch of 2.*num_envs=1"):
        make(num_envs=2)


def test_a_loop_like_cleanrls_learns_from_a_batch():
    """The sample in docs/wrappers.md: tensors in, tensors out, time limits distinguished."""
    envs = gymnasium.make_vec("Isaac-Cartpole-v0", num_envs=16, device="cpu")
    torch.manual_seed(1)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    before = policy[0].weight.clone()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    obs, _ = envs.reset(seed=1)
    ended = 0
    for _ in range(envs.unwrapped.max_episode_length + 1):  # so that some episode ends
        distribution = torch.distributions.Normal(policy(obs["policy"]), 1.0)
        actions = distribution.sample()
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        loss = -(distribution.log_prob(actions).squeeze(1) * rewards).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ended += infos["num_ended"]
        assert ("final_obs" in infos) == bool((terminated | truncated).any())
    assert ended > 0
    assert not torch.equal(policy[0].weight, before)
