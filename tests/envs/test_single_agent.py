"""Several agents as one, for RL libraries that know one agent."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import multi_agent_to_single_agent
from envlab.errors import ConfigurationError
from tests.envs.pair import PairEnv, draw, make, place
from tests.envs.sliders import DT, EPISODE_LENGTH_S

STEPS = round(EPISODE_LENGTH_S / DT)


def joined(actions: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat((actions["pusher"], actions["driver"]), dim=1)


def test_one_failure_and_one_time_limit_truncate():
    env = multi_agent_to_single_agent(make(3, limit=1.0))
    env.episode_length_buf = torch.tensor([0, 0, STEPS - 1])
    place(env.env, [2.0, 2.0, 2.0], [2.0, 0.0, 0.0])
    _, _, terminated, truncated, _ = env.step(torch.zeros(3, 3))
    assert terminated.tolist() == [True, False, False]
    assert truncated.tolist() == [False, False, True]


def test_the_state_may_be_the_observation():
    inner = make(state_space=2)
    env = multi_agent_to_single_agent(inner, state_as_observation=True)
    assert env.single_observation_space["policy"].shape == (2,)
    for actions in draw(STEPS):
        obs, *_, info = env.step(joined(actions))
        assert torch.equal(obs["policy"], inner.states())
    assert info["final_obs"]["policy"].shape == (2, 2)

    joining = multi_agent_to_single_agent(make(state_space=-1), state_as_observation=True)
    assert torch.equal(joining.obs_buf["policy"], joining.env.states())
    with pytest.raises(ConfigurationError, match="state_space is 0"):
        multi_agent_to_single_agent(make(), state_as_observation=True)


def test_attributes_used_by_libraries_are_the_inner_environments(tmp_path):
    inner: PairEnv = make(seed=7)
    env = multi_agent_to_single_agent(inner)
    env.log_dir = tmp_path
    env.episode_length_buf = torch.tensor([3, 4])
    assert inner.log_dir == env.log_dir == tmp_path
    assert inner.episode_length_buf.tolist() == [3, 4]
    assert env.max_episode_length == STEPS
    assert env.step_dt == pytest.approx(DT)
    for name in ("cfg", "sim", "device", "context", "random", "num_envs", "env_ids", "nan_guard"):
        assert getattr(env, name) is getattr(inner, name)
    assert env.render() is None
    env.check_health()
    with pytest.raises(AttributeError, match="no_such_name"):
        env.no_such_name  # noqa: B018
    env.close()


def test_its_state_is_the_inner_environments_and_restores_exactly():
    env, other = (multi_agent_to_single_agent(make(seed=seed)) for seed in (1, 2))
    for actions in draw(3):
        env.step(joined(actions))
    other.set_state(env.state())
    assert torch.equal(other.obs_buf["policy"][:, 2:], env.env.obs_buf["driver"])
    for actions in draw(15):
        assert torch.equal(*(each.step(joined(actions))[0]["policy"] for each in (env, other)))
