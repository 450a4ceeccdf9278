"""Rules for all terms: removal, wrong kinds, parameters, and terms in one line."""

from __future__ import annotations

from envlab.envs import mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.managers.term import terms_of
from envlab.envs.terms import at_reset, observation, reward
from tests.envs.refusals import assert_refused
from tests.envs.sliders import joint, make_env, terms


def test_removed_terms_are_skipped_and_order_is_kept():
    first, last = (reward(mdp.is_alive, weight) for weight in (1.0, 2.0))
    assert terms_of(terms(b=first, gone=None, a=last), RewardTermCfg) == {"b": first, "a": last}
    assert terms_of(None, RewardTermCfg) == {}


def test_terms_that_do_not_fit_are_refused():
    event = at_reset(mdp.reset_joints_by_offset)

    def speed(**params: object) -> object:
        term = reward(mdp.joint_vel_l1, 1.0, **params)
        return make_env(1, rewards=terms(speed=term))

    assert_refused(
        {
            r"push is a EventTermCfg, but must be a Reward": (
                lambda: terms_of(terms(push=event), RewardTermCfg)
            ),
            r"has no parameter 'joint'.*asset_cfg": lambda: speed(joint="push"),
            r"matches 'servos'.*Did you mean servo": lambda: speed(asset_cfg=joint("servos")),
        }
    )


def test_a_functions_own_parameter_may_be_called_weight_or_noise():
    assert reward(mdp.is_alive, 2.0, weight=3.0).params == {"weight": 3.0}
    assert observation(mdp.sensor, noise=0.1).params == {"noise": 0.1}
