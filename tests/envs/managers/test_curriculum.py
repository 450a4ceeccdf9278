"""Curriculum terms run in every step, so that all ranks harden the task in the same one."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.managers import CurriculumTermCfg, RewardTermCfg
from envlab.errors import ConfigurationError
from tests.envs.sliders import make_env, push, terms


def test_terms_get_the_mask_of_the_environments_that_are_about_to_be_reset():
    masks = []

    def watch(env, mask) -> torch.Tensor:
        masks.append(mask.tolist())
        return mask.sum()

    env = make_env(3, curriculum=terms(watch=CurriculumTermCfg(func=watch)))
    push(env, 0.0, 0.0, 0.0)
    env.episode_length_buf[:] = torch.tensor([9, 0, 9])
    info = push(env, 0.0, 0.0, 0.0)[-1]
    assert masks == [[False, False, False], [True, False, True]]
    assert float(info["log"]["Curriculum/watch"]) == 2.0


def test_a_term_that_returns_none_is_not_logged():
    def silent(env, mask) -> None:
        return None

    env = make_env(1, curriculum=terms(silent=CurriculumTermCfg(func=silent)))
    env.episode_length_buf[:] = 9
    assert push(env, 0.0)[-1]["log"] == {"Episode_Termination/time_out": torch.tensor(1.0)}


def modify(term_name: str) -> object:
    params = {"term_name": term_name, "weight": 3.0, "num_steps": 10}
    return terms(harder=CurriculumTermCfg(func=mdp.modify_reward_weight, params=params))


def test_modify_reward_weight_waits_for_its_steps():
    """The change is made at the end of step 11, whether or not an episode ends there."""
    env = make_env(
        1,
        rewards=terms(alive=RewardTermCfg(func=mdp.is_alive, weight=1.0)),
        curriculum=modify("alive"),
    )
    history = [push(env, 0.0) for _ in range(22)]
    rewards = [reward.item() for _, reward, *_ in history]
    assert rewards[:11] == pytest.approx([0.1] * 11)
    assert rewards[11:] == pytest.approx([0.3] * 11)
    logged = [float(info["log"]["Curriculum/harder"]) for *_, info in history if info["num_ended"]]
    assert logged == [1.0, 3.0]


def test_modify_reward_weight_of_an_unknown_term_is_refused():
    env = make_env(
        1,
        rewards=terms(alive=RewardTermCfg(func=mdp.is_alive, weight=1.0)),
    )
    with pytest.raises(ConfigurationError, match="no reward term 'alife'"):
        mdp.modify_reward_weight(env, torch.ones(1, dtype=torch.bool), "alife", 1.0, 0)
