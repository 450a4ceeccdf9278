"""Several agents: dictionaries by agent, a state for a central critic, and one common reset."""

from __future__ import annotations

import logging

import pytest
import torch

from envlab.envs import ConstantNoiseCfg, DirectMarlEnv, UniformNoiseCfg
from tests.envs.pair import PairEnv, act, make, place
from tests.envs.refusals import assert_refused
from tests.envs.sliders import CTRL_DRIVE, CTRL_PUSH, DT, EPISODE_LENGTH_S, PUSH_MASS
from tests.refusals import check_refusals

AGENTS = ["pusher", "driver"]
STEPS = round(EPISODE_LENGTH_S / DT)


def test_everything_comes_by_agent_in_their_order():
    env = make()
    assert env.possible_agents == env.agents == AGENTS
    assert env.num_agents == env.max_num_agents == 2
    assert env.state_space is None
    assert env.states() is None
    assert env.state_spaces == {"pusher": None, "driver": None}
    for spaces, sizes in ((env.observation_spaces, [2, 1]), (env.action_spaces, [1, 2])):
        assert list(spaces) == AGENTS
        assert [space.shape for space in spaces.values()] == [(size,) for size in sizes]
    assert list(env.single_observation_space.spaces) == AGENTS
    assert env.single_action_space["driver"] == env.action_spaces["driver"]
    obs, _ = env.reset(seed=1)
    *returned, info = env.step(act(env))
    assert info.keys() == {"num_ended", "log"}
    assert [list(values) for values in returned] == [AGENTS] * 4
    for observations in (obs, returned[0]):
        assert [values.shape for values in observations.values()] == [(2, 2), (2, 1)]


@pytest.mark.parametrize("is_finite", [False, True])
def test_a_time_limit_ends_the_episode_of_all_agents(is_finite):
    env = make(is_finite_horizon=is_finite)
    for step in range(1, STEPS + 1):
        _, _, terminated, truncated, info = env.step(act(env))
        for agent in AGENTS:
            assert terminated[agent].tolist() == [is_finite and step == STEPS] * 2
            assert truncated[agent].tolist() == [not is_finite and step == STEPS] * 2
    assert info["num_ended"] == 2
    assert info["_final_obs"].all()
    assert info["log"] == {"ended": 1.0}


def test_wrong_actions_and_results_are_refused(monkeypatch):
    env, right = make(), act(make())
    flat, column = torch.zeros(2), torch.zeros(2, 1)
    check_refusals(
        env.step,
        [
            ({"pusher": column}, "given for the agents pusher, driver.* for pusher"),
            (right | {"third": flat}, "actions must be given .* for pusher, driver, third"),
            (right | {"driver": column}, r"'driver' have shape \(2, 1\), but must be \(2, 2\)"),
            (right | {"pusher": flat}, r"'pusher' have shape \(2,\), but must be \(2, 1\)"),
        ],
    )

    def answer(method: str, result: object) -> object:
        env = make()
        monkeypatch.setattr(env, method, lambda: result)
        return env.step(right)

    wide, failed = {"pusher": flat, "driver": column}, {"pusher": flat, "driver": flat.bool()}
    check_refusals(
        answer,
        [
            ("_get_rewards", {"pusher": flat}, "rewards must be given .* for pusher"),
            ("_get_rewards", wide, r"rewards of 'driver' of shape \(2, 1\)"),
            ("_get_dones", (failed, {}), r"terminated of 'pusher' of .* and torch.float32"),
        ],
    )


def test_actions_reach_their_agent_and_rewards_follow():
    env = make()
    place(env, [0.0, 0.0], [0.0, 0.0])
    actions = {"driver": torch.tensor([[0.5, 0.0], [1.0, 2.0]]), "pusher": torch.ones(2, 1)}
    obs, rewards, *_ = env.step(actions)
    assert env.sim.ctrl[:, CTRL_PUSH].tolist() == [1.0, 1.0]
    assert env.sim.ctrl[:, CTRL_DRIVE].tolist() == [0.5, 3.0]
    assert env.actions.tolist() == [[1.0, 0.5, 0.0], [1.0, 1.0, 2.0]]
    pushed = 1.0 / PUSH_MASS * DT
    assert rewards["pusher"].tolist() == pytest.approx([pushed] * 2)
    assert rewards["driver"].tolist() == pytest.approx([-0.5 * DT, -3.0 * DT])
    assert obs["pusher"][0].tolist() == pytest.approx([pushed * DT, pushed])
    assert obs["driver"][:, 0].tolist() == pytest.approx([0.5 * DT, 3.0 * DT])


def test_an_environment_is_reset_when_the_last_agent_is_done():
    env = make(4, limit=1.0)
    env.episode_length_buf = torch.tensor([0, 0, 0, STEPS - 1])
    place(env, [2.0, 2.0, 0.0, 2.0], [2.0, 0.0, 0.0, 0.0])
    _, _, terminated, truncated, info = env.step(act(env))
    assert terminated["pusher"].tolist() == [True, True, False, True]
    assert terminated["driver"].tolist() == [True, False, False, False]
    assert not truncated["pusher"].any()
    assert truncated["driver"].tolist() == [False, False, False, True]
    assert info["_final_obs"].tolist() == [True, False, False, True]
    assert info["num_ended"] == 2
    assert env.episode_length_buf.tolist() == [0, 1, 1, 0]


def test_noise_is_each_agents_own():
    acting = {"driver": ConstantNoiseCfg(bias=0.5)}
    seeing = {"pusher": UniformNoiseCfg(n_min=5.0, n_max=6.0)}
    env = make(4, state_space=-1, action_noise_model=acting, observation_noise_model=seeing)
    place(env, [0.0] * 4, [0.0] * 4)
    obs, *_ = env.step(act(env))
    assert env.sim.ctrl[:, CTRL_DRIVE].tolist() == [1.0] * 4
    assert env.sim.ctrl[:, CTRL_PUSH].tolist() == [0.0] * 4
    assert ((obs["pusher"] >= 5.0) & (obs["pusher"] < 6.0)).all()
    assert obs["pusher"].unique().numel() == 8
    assert obs["driver"][:, 0].tolist() == pytest.approx([DT] * 4)
    assert torch.equal(env.states()[:, :2], obs["pusher"])


class BrokenRewardEnv(PairEnv):
    """Its driver's reward is NaN in environment 1."""

    def _get_rewards(self) -> dict[str, torch.Tensor]:
        rewards = super()._get_rewards()
        rewards["driver"] = torch.where(self.env_ids == 1, torch.nan, rewards["driver"])
        return rewards


def test_one_agents_broken_reward_ends_the_episode_of_all(caplog):
    env, sane = make(3, cls=BrokenRewardEnv), make(3)
    for one in (env, sane):
        place(one, [0.0] * 3, [0.0] * 3)
    _, rewards, terminated, truncated, info = env.step(act(env, 1.0, 1.0))
    expected = sane.step(act(sane, 1.0, 1.0))[1]
    for agent in AGENTS:
        assert terminated[agent].tolist() == [False, True, False]
        assert not truncated[agent].any()
        assert rewards[agent][1] == 0.0
        assert torch.equal(rewards[agent][[0, 2]], expected[agent][[0, 2]])
    assert info["_final_obs"].tolist() == [False, True, False]
    with caplog.at_level(logging.WARNING):
        env.check_health()
    assert "1 environment episodes were ended by non-finite values" in caplog.text


def test_wrong_configurations_are_refused():
    class Stateless(PairEnv):
        _get_states = DirectMarlEnv._get_states

    table = {
        "possible_agents is": {"possible_agents": []},
        "none twice": {"possible_agents": ["pusher", "pusher"]},
        "not 'state'": {"possible_agents": ["pusher", "state"]},
        "observation_spaces must be given for the agents pusher": {"possible_agents": ["pusher"]},
        "action_spaces must be given .* for pusher": {"action_spaces": {"pusher": 1}},
        "actions need a size of at least 1": {"action_spaces": {"pusher": 1, "driver": 0}},
        "state_space is -2": {"state_space": -2},
        r"states of shape \(2, 2\).* declares 3 .* Set state_space": {"state_space": 3},
        r"observes 'driver' of shape \(2, 1\).* declares 4 .* Set observation_spaces": {
            "observation_spaces": {"pusher": 2, "driver": 4}
        },
        "names the agent 'third'": {"action_noise_model": {"third": ConstantNoiseCfg()}},
        r"Stateless has no _get_states\(\)": {"cls": Stateless, "state_space": 2},
    }
    assert_refused({words: lambda one=one: make(**one) for words, one in table.items()})
