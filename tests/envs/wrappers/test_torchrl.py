"""TorchRL's checks and rollouts on envlab's environments."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import gymnasium
import pytest
import torch

from envlab.registry import discover

pytestmark = pytest.mark.skipif(
    find_spec("torchrl") is None, reason="needs torchrl: pip install -e '.[test]'"
)
discover()


def wrapped(base: Any) -> Any:
    """Return an environment for TorchRL, whose import takes seconds: no other test needs it."""
    from envlab.envs.wrappers.torchrl import TorchRlEnvWrapper

    return TorchRlEnvWrapper(base)


def test_its_own_check_passes():
    from torchrl.envs.utils import check_env_specs

    kinds = ("Discrete", "MultiDiscrete")
    choosing = (f"Isaac-Cartpole-Showcase-Box-{kind}-Direct-v0" for kind in kinds)
    for task in ("Isaac-Cartpole-v0", *choosing):
        env = wrapped(gymnasium.make(task, num_envs=4, device="cpu").unwrapped)
        check_env_specs(env)
        assert env.rollout(5, break_when_any_done=False).shape == (4, 5)


def test_an_episode_ends_in_its_last_state_and_the_next_begins_once():
    base = gymnasium.make("Isaac-Cartpole-v0", num_envs=3, device="cpu").unwrapped
    env = wrapped(base)
    env.set_seed(3)
    state = env.reset()
    base.episode_length_buf = torch.tensor([0, base.max_episode_length - 1, 0])
    state, following = env.step_and_maybe_reset(env.rand_action(state))
    ended = state["next", "truncated"][:, 0]
    assert ended.tolist() == [False, True, False]
    assert base.episode_length_buf.tolist() == [1, 0, 1]
    differs = (state["next", "policy"] != following["policy"]).any(dim=1)
    assert torch.equal(differs, ended)
    assert torch.equal(following["policy"], base.obs_buf["policy"])
    # A reset that TorchRL's user asks for is another one.
    following["_reset"] = torch.tensor([[True], [False], [False]])
    env.reset(following)
    assert base.episode_length_buf.tolist() == [0, 0, 1]


def test_a_seed_is_for_the_next_reset():
    env = wrapped(gymnasium.make("Isaac-Cartpole-v0", num_envs=2, device="cpu").unwrapped)
    env.set_seed(5)
    first, second = env.reset()["policy"], env.reset()["policy"]
    assert not torch.equal(first, second)
    env.set_seed(5)
    assert torch.equal(env.reset()["policy"], first)
