"""Observation groups: order of terms, and noise, clip and scale in this order."""

from __future__ import annotations

import torch

from envlab.envs import ConstantNoiseCfg, UniformNoiseCfg, mdp
from envlab.envs.managers import ObservationTermCfg
from envlab.envs.terms import observation
from envlab.sim import host
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, joint, make_env, place, push, terms


def position(*names: str, **settings) -> ObservationTermCfg:
    return ObservationTermCfg(func=mdp.joint_pos, params={"asset_cfg": joint(*names)}, **settings)


def observed(*, corrupt: bool, **named):
    """Return a group's observation of sliders at 1, 2, 3 and 4 m."""
    env = make_env(1, observations=terms(policy=group(enable_corruption=True, **named)))
    place(env, [[1.0, 2.0, 3.0, 4.0]], [[0.0] * 4])
    return env.observation_manager.compute(corrupt=corrupt)["policy"][0].tolist()


def test_terms_stand_side_by_side_in_field_order():
    values = observed(corrupt=False, b=position("drive"), gone=None, a=position("push", "servo"))
    assert values == [3.0, 1.0, 2.0]


def test_noise_then_clip_then_scale():
    table = [
        ({"noise": ConstantNoiseCfg(bias=0.25)}, 3.25),
        ({"scale": 2.0}, 6.0),
        ({"clip": (-1.0, 2.5)}, 2.5),
        ({"clip": (-1.0, 2.5), "scale": 2.0}, 5.0),
        ({"noise": ConstantNoiseCfg(bias=-1.0), "clip": (-1.0, 2.5), "scale": 2.0}, 4.0),
    ]
    for settings, expected in table:
        assert observed(corrupt=True, term=position("drive", **settings)) == [expected], settings


def test_groups_that_make_no_observation_are_refused():
    def made(**groups: object) -> object:
        return make_env(2, observations=terms(**groups))

    seen = group(pos=position("push"))
    flat = observation(lambda env: torch.zeros(env.num_envs))
    wrong, empty = group(flat=flat), group(gone=None)
    assert_refused(
        {
            "needs a group called 'policy'": lambda: made(critic=seen),
            "'critic' has no terms": lambda: made(policy=seen, critic=empty),
            r"'flat' of group 'policy' returned shape \(2,\)": lambda: made(policy=wrong),
        }
    )


def test_the_policy_sees_noise_and_the_critic_does_not():
    noisy = position("push", "servo", noise=UniformNoiseCfg(n_min=-0.1, n_max=0.1))
    groups = terms(policy=group(enable_corruption=True, pos=noisy), critic=group(pos=noisy))
    env = make_env(4, observations=groups, seed=9)
    obs, *_ = push(env, 1.0, 1.0, 1.0, 1.0)
    error = obs["policy"] - obs["critic"]
    assert error.abs().max() <= 0.1
    assert error.unique().numel() == 8
    twin = make_env(4, seed=9)
    twin.random.tick = env.random.tick
    drawn = twin.random.stream("obs.policy.pos").uniform(-0.1, 0.1, 2)
    assert torch.allclose(error, drawn, atol=1e-6)


def test_a_gpu_finishes_a_group_as_a_whole_with_the_same_values(monkeypatch):
    named = {
        "plain": position("servo"),
        "noisy": position("drive", noise=UniformNoiseCfg(n_min=-1.0, n_max=1.0), scale=2.0),
        "cut": position("push", noise=UniformNoiseCfg(n_max=0.5), clip=(0.5, 1.0)),
    }
    expected = observed(corrupt=True, **named)
    monkeypatch.setattr(host, "HOST", set())
    assert observed(corrupt=True, **named) == expected
