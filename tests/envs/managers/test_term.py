"""Rules for all terms: removal, wrong kinds, parameters."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import SceneEntity, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab.envs.managers.term import terms_of
from envlab.errors import ConfigurationError
from tests.envs.sliders import joint, make_env, terms

LOOSE = joint("loose")


def test_removed_terms_are_skipped_and_order_is_kept():
    first, last = (RewardTermCfg(func=mdp.is_alive, weight=weight) for weight in (1.0, 2.0))
    assert terms_of(terms(b=first, gone=None, a=last), RewardTermCfg) == {"b": first, "a": last}
    assert terms_of(None, RewardTermCfg) == {}


def test_a_term_of_another_kind_is_refused():
    event = EventTermCfg(func=mdp.reset_joints_by_offset, mode="reset")
    with pytest.raises(ConfigurationError, match=r"push is a EventTermCfg, but must be a Reward"):
        terms_of(terms(push=event), RewardTermCfg)


def test_a_parameter_that_the_function_lacks_is_refused():
    term = RewardTermCfg(func=mdp.joint_vel_l1, weight=1.0, params={"joint": "push"})
    with pytest.raises(ConfigurationError, match=r"has no parameter 'joint'.*asset_cfg"):
        make_env(1, rewards=terms(speed=term))


def test_entities_are_looked_up_once_wherever_they_stand():
    seen: list[SceneEntity] = []

    def watch(env, first, second=LOOSE) -> torch.Tensor:
        seen.extend((first, second))
        return torch.zeros(env.num_envs)

    params = {"first": joint("servo")}
    env = make_env(1, rewards=terms(watch=RewardTermCfg(func=watch, weight=1.0, params=params)))
    for _ in range(2):
        env.step(torch.zeros(1, 1))
    assert [entity.joint_names for entity in seen] == [["servo"], ["loose"]] * 2
    assert seen[0] is seen[2]


def test_a_joint_that_is_not_there_is_refused():
    term = RewardTermCfg(func=mdp.joint_vel_l1, weight=1.0, params={"asset_cfg": joint("servos")})
    with pytest.raises(ConfigurationError, match=r"matches 'servos'.*Did you mean servo"):
        make_env(1, rewards=terms(speed=term))
