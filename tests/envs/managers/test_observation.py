"""Observation groups: how terms are joined, and noise, clip and scale in this order."""

from __future__ import annotations

import torch

from envlab.envs import ConstantNoiseCfg, ManagerEnv, UniformNoiseCfg, mdp
from envlab.envs.managers import ObservationTermCfg
from envlab.envs.terms import observation
from envlab.sim import host
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, joint, make_cfg, make_env, place, push, terms


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

    def growing(env: ManagerEnv) -> torch.Tensor:
        return torch.zeros(2, 1 + env.common_step_counter)

    grows = terms(policy=group(more=ObservationTermCfg(func=growing, history_length=2)))
    seen = group(pos=position("push"))
    flat = observation(lambda env: torch.zeros(env.num_envs))
    wrong, empty = group(flat=flat), group(gone=None)
    assert_refused(
        {
            "needs a group called 'policy'": lambda: made(critic=seen),
            "'critic' has no terms": lambda: made(policy=seen, critic=empty),
            r"'more' of group 'policy' returned shape \(2, 2\), but \(2, 1\) before": lambda: push(
                make_env(2, observations=grows), 0.0, 0.0
            ),
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


def test_a_group_may_be_a_dictionary_of_its_terms():
    policy = group(pos=position("push", "servo"), far=position("drive", scale=2.0))
    policy.concatenate_terms = False
    env = make_env(2, observations=terms(policy=policy, critic=group(pos=position("push"))))
    place(env, [[1.0, 2.0, 3.0, 4.0]] * 2, [[0.0] * 4] * 2)
    seen = env.observation_manager.compute(corrupt=False)
    assert {name: values.tolist() for name, values in seen["policy"].items()} == {
        "pos": [[1.0, 2.0]] * 2,
        "far": [[6.0]] * 2,
    }
    assert seen["critic"].tolist() == [[1.0]] * 2
    spaces = env.single_observation_space["policy"]
    assert {name: spaces[name].shape for name in spaces} == {"pos": (2,), "far": (1,)}
    first, *_ = push(env, 5.0, 5.0)
    kept = first["policy"]["pos"].clone()
    push(env, 5.0, 5.0)
    assert torch.equal(first["policy"]["pos"], kept)
    assert env.obs_buf["policy"]["pos"][0, 0] > kept[0, 0]


def test_terms_of_a_dictionary_that_are_not_finite_are_cleaned():
    def broken(env: ManagerEnv) -> torch.Tensor:
        bad = torch.tensor([[torch.nan], [1.0], [2.0]])
        return bad if env.common_step_counter == 1 else torch.zeros(3, 1)

    policy = group(pos=position("push"), odd=observation(broken))
    policy.concatenate_terms = False
    env = make_env(3, observations=terms(policy=policy))
    obs, *_ = push(env, 0.0, 0.0, 0.0)
    assert obs["policy"]["odd"].tolist() == [[0.0], [1.0], [2.0]]
    *_, terminated, _, info = push(env, 0.0, 0.0, 0.0)
    assert terminated.tolist() == [True, False, False]
    assert info["final_obs"]["policy"]["odd"].shape == (3, 1)


def test_terms_are_joined_along_the_dimension_of_the_group():
    def deep(name: str) -> ObservationTermCfg:
        return position(name, history_length=2, flatten_history_dim=False)

    shapes = {}
    for dim in (0, 1, -1, -2):
        policy = group(a=deep("push"), b=deep("servo"))
        policy.concatenate_dim = dim
        env = make_env(3, observations=terms(policy=policy))
        place(env, [[1.0, 2.0, 3.0, 4.0]] * 3, [[0.0] * 4] * 3)
        env.observation_manager.reset(torch.ones(3, dtype=torch.bool))
        shapes[dim] = env.observation_manager.compute(corrupt=False)["policy"][0].tolist()
    assert shapes[0] == shapes[-2] == [[1.0], [1.0], [2.0], [2.0]]
    assert shapes[1] == shapes[-1] == [[1.0, 2.0], [1.0, 2.0]]


def test_terms_that_cannot_be_joined_are_refused():
    def made(dim: int, **named: ObservationTermCfg) -> object:
        policy = group(**named)
        policy.concatenate_dim = dim
        return make_env(2, observations=terms(policy=policy))

    deep = position("push", "servo", history_length=3, flatten_history_dim=False)
    flat = position("push")
    told = r"'policy' cannot be joined along dimension %s .* are a \[3, 2\], b \[1\]. Let"
    assert_refused(
        {
            told % "-1": lambda: made(-1, a=deep, b=flat),
            told % "0": lambda: made(0, a=deep, b=flat),
            r"along dimension 2 .* are a \[3, 2\]. Let": lambda: made(2, a=deep),
        }
    )


def test_dictionaries_keep_the_promises_of_every_task():
    noisy = {"noise": UniformNoiseCfg(n_min=-0.1, n_max=0.1), "history_length": 2}
    policy = group(
        enable_corruption=True,
        pos=position("push", delay_max_lag=2, **noisy),
        vel=observation(mdp.joint_vel),
    )
    policy.concatenate_terms = False
    assert_keeps_promises(make_cfg(8, observations=terms(policy=policy)))
