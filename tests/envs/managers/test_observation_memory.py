"""Observations that remember: histories, delays, filters, biases, and terms that are classes."""

from __future__ import annotations

from typing import Any

import torch

from envlab.envs import (
    GaussianNoiseCfg,
    ManagerEnv,
    ManagerTermBase,
    NoiseModelWithAdditiveBiasCfg,
    UniformNoiseCfg,
    mdp,
    modifiers,
)
from envlab.envs.managers import ObservationTermCfg
from envlab.envs.terms import observation, reward
from envlab.state import State
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, joint, make_cfg, make_env, push, terms

STEPS = 10


def ticks(env: ManagerEnv) -> torch.Tensor:
    """Return the number of each environment's step in its episode, plus its index times 100."""
    return (env.episode_length_buf + 100 * env.env_ids).float().unsqueeze(1)


def ticking(num_envs: int = 2, **settings: Any) -> ManagerEnv:
    """Return an environment that observes :func:`ticks`, whose episodes last ten steps."""
    term = ObservationTermCfg(func=ticks, **settings)
    return make_env(num_envs, observations=terms(policy=group(enable_corruption=True, ticks=term)))


def seen(env: ManagerEnv) -> list[list[float]]:
    return env.obs_buf["policy"].tolist()


def test_a_history_is_the_oldest_first_and_begins_with_the_first_value():
    env = ticking(history_length=3)
    assert env.single_observation_space["policy"].shape == (3,)
    assert seen(env) == [[0, 0, 0], [100, 100, 100]]
    push(env, 0, 0)
    assert seen(env) == [[0, 0, 1], [100, 100, 101]]
    for _ in range(3):
        push(env, 0, 0)
    assert seen(env) == [[2, 3, 4], [102, 103, 104]]


def test_the_last_observation_of_an_episode_has_its_history_and_the_next_a_new_one():
    env = ticking(history_length=3)
    for _ in range(STEPS - 1):
        push(env, 0, 0)
    *_, info = push(env, 0, 0)
    assert info["final_obs"]["policy"].tolist() == [[8, 9, 10], [108, 109, 110]]
    assert seen(env) == [[0, 0, 0], [100, 100, 100]]


def test_a_groups_history_is_that_of_its_terms_each_by_itself_or_in_a_dimension():
    parts = {"a": ObservationTermCfg(func=ticks), "b": ObservationTermCfg(func=ticks, scale=-1.0)}
    flat = group(**parts)
    flat.history_length = 2
    env = make_env(1, observations=terms(policy=flat))
    push(env, 0)
    assert seen(env) == [[0, 1, 0, -1]]
    deep = group(**parts)
    deep.history_length, deep.flatten_history_dim = 2, False
    env = make_env(1, observations=terms(policy=deep))
    push(env, 0)
    assert seen(env) == [[[0, 0], [1, -1]]]


def test_a_delay_shows_the_value_of_steps_ago():
    env = ticking(delay_min_lag=2, delay_max_lag=2)
    shown = []
    for _ in range(5):
        push(env, 0, 0)
        shown.append(seen(env)[0][0])
    assert shown == [0, 0, 1, 2, 3]


def delays(env: ManagerEnv, steps: int = 8) -> torch.Tensor:
    """Return each environment's delay in the last of some steps, ``(steps, num_envs)``."""
    found = []
    for _ in range(steps):
        push(env, *[0.0] * env.num_envs)
        found.append((ticks(env) - env.obs_buf["policy"])[:, 0])
    return torch.stack(found)[4:]  # before, the episode's first value may be the oldest


def test_delays_are_drawn_held_and_shared_as_asked():
    free = delays(ticking(64, delay_min_lag=1, delay_max_lag=3))
    assert free.unique().tolist() == [1, 2, 3]
    assert (free[1:] != free[:-1]).any(dim=0).float().mean() > 0.5
    shared = delays(ticking(64, delay_max_lag=3, delay_per_env=False))
    assert (shared == shared[:, :1]).all()
    held = delays(ticking(64, delay_max_lag=3, delay_hold_prob=1.0))
    assert (held == 0).all()  # as at the start
    periodic = delays(ticking(256, delay_max_lag=3, delay_update_period=4))
    changes = (periodic[1:] != periodic[:-1]).float().sum(dim=0)
    assert changes.max() == 1  # of three, in four steps
    at = (periodic[1:] != periodic[:-1]).float().sum(dim=1)
    assert (at > 0).all()  # environments draw at different steps
    together = ticking(256, delay_max_lag=3, delay_update_period=4, delay_per_env_phase=False)
    found = delays(together, 9)
    at = (found[1:] != found[:-1]).float().sum(dim=1)
    assert (at > 0).tolist() == [False, False, False, True]


def filtered(*parts: modifiers.ModifierCfg) -> list[float]:
    """Return what is seen of 0, 1, 2, 3, 4."""
    env = ticking(1, modifiers=list(parts))
    shown = [seen(env)[0][0]]
    for _ in range(4):
        push(env, 0)
        shown.append(seen(env)[0][0])
    return shown


def test_modifiers_are_isaac_labs():
    low_pass = [0.0]
    for value in (1, 2, 3, 4):
        low_pass.append(0.5 * low_pass[-1] + 0.5 * value)
    table = [
        ((modifiers.DigitalFilterCfg(A=[-0.5], B=[0.5]),), low_pass),
        ((modifiers.DigitalFilterCfg(A=[0.0], B=[0.0, 1.0]),), [0, 0, 1, 2, 3]),
        ((modifiers.DigitalFilterCfg(A=[0.0], B=[0.25] * 4),), [0, 0.25, 0.75, 1.5, 2.5]),
        ((modifiers.IntegratorCfg(dt=2.0),), [0, 1, 4, 9, 16]),
        (
            (
                modifiers.ModifierCfg(func=modifiers.scale, params={"multiplier": 2.0}),
                modifiers.ModifierCfg(func=modifiers.bias, params={"value": 1.0}),
                modifiers.ModifierCfg(func=modifiers.clip, params={"bounds": (None, 6.0)}),
            ),
            [1, 3, 5, 6, 6],
        ),
    ]
    for parts, expected in table:
        assert filtered(*parts) == expected, parts


def test_a_bias_lasts_for_an_episode_and_a_factor_is_a_columns():
    bias = NoiseModelWithAdditiveBiasCfg(
        noise_cfg=UniformNoiseCfg(n_min=0.0, n_max=0.0),
        bias_noise_cfg=GaussianNoiseCfg(std=1.0),
    )
    params = {"asset_cfg": joint("push", "drive")}  # which rest
    term = ObservationTermCfg(func=mdp.joint_vel, params=params, noise=bias, scale=(1.0, 2.0))
    env = make_env(3, observations=terms(policy=group(enable_corruption=True, vel=term)))
    first = env.obs_buf["policy"].clone()
    assert first.unique().numel() == 6
    for _ in range(STEPS - 1):
        push(env, 0, 0, 0)
        assert torch.allclose(env.obs_buf["policy"], first)
    *_, info = push(env, 0, 0, 0)
    assert torch.equal(info["final_obs"]["policy"], torch.zeros(3, 2))  # without noise
    assert not torch.isclose(env.obs_buf["policy"], first).any()


def test_settings_that_make_no_sense_are_refused():
    def made(**settings: Any) -> Any:
        term = ObservationTermCfg(
            func=mdp.joint_pos, params={"asset_cfg": joint("push")}, **settings
        )
        return make_env(2, observations=terms(policy=group(pos=term)))

    assert_refused(
        {
            r"pos.delay_min_lag is 3, above delay_max_lag \(1\)": lambda: made(
                delay_min_lag=3, delay_max_lag=1
            ),
            "history_length is -1": lambda: made(history_length=-1),
            "scale has 2 factors, but the term has 1 columns": lambda: made(scale=(1.0, 2.0)),
            "integrator has dt=nan": lambda: made(modifiers=[modifiers.IntegratorCfg()]),
            r"filter has A=\[\]": lambda: made(modifiers=[modifiers.DigitalFilterCfg(A=[])]),
        }
    )


class LongestPush(ManagerTermBase):
    """Rewards the largest velocity of an episode so far, which it remembers."""

    STATE = State(per_env=("best",))

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self.best = torch.zeros(env.num_envs)

    def reset(self, mask: torch.Tensor) -> None:
        self.best.masked_fill_(mask, 0.0)

    def __call__(self, env: ManagerEnv, asset_cfg: Any, factor: float = 1.0) -> torch.Tensor:
        now = env.sim.data.qvel[:, asset_cfg.qvel_ids].abs().amax(dim=1)
        torch.maximum(self.best, now, out=self.best)
        return factor * self.best


def test_a_class_stands_where_a_function_may_and_forgets_at_resets():
    best = reward(LongestPush, 1.0, asset_cfg=joint("push"), factor=10.0)
    env = make_env(2, rewards=terms(best=best))
    rewards = [push(env, 1.0, 0.0)[1], push(env, -1.0, 0.0)[1], push(env, 0.0, 0.0)[1]]
    assert rewards[0][0] == rewards[1][0] == rewards[2][0] > 0.0
    assert list(env.memories) == ["rewards.best"]
    for _ in range(STEPS - 3):
        push(env, 0.0, 0.0)
    assert env.memories["rewards.best"].best.tolist() == [0.0, 0.0]


class NoBase:
    def __call__(self, env: ManagerEnv) -> torch.Tensor:
        return torch.zeros(env.num_envs)


def test_a_class_of_another_kind_or_with_other_parameters_is_refused():
    def made(func: Any, **params: Any) -> Any:
        return make_env(2, rewards=terms(one=reward(func, 1.0, **params)))

    assert_refused(
        {
            "NoBase is a class, but not a ManagerTermBase": lambda: made(NoBase),
            "LongestPush needs the parameter 'asset_cfg'": lambda: made(LongestPush),
            "LongestPush has no parameter 'speed'; it has asset_cfg, factor": lambda: made(
                LongestPush, asset_cfg=joint("push"), speed=1.0
            ),
        }
    )


def test_memories_keep_the_promises_of_every_task():
    bias = NoiseModelWithAdditiveBiasCfg(
        noise_cfg=UniformNoiseCfg(n_min=-0.1, n_max=0.1),
        bias_noise_cfg=UniformNoiseCfg(n_min=-1.0, n_max=1.0),
    )
    noisy = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    low_pass = modifiers.DigitalFilterCfg(A=[-0.5], B=[0.5])
    late = {"delay_max_lag": 3, "delay_hold_prob": 0.3, "delay_update_period": 2}
    policy = group(
        enable_corruption=True,
        pos=ObservationTermCfg(func=mdp.joint_pos, noise=noisy, history_length=4, **late),
        vel=ObservationTermCfg(func=mdp.joint_vel, noise=bias, modifiers=[low_pass]),
        sum=ObservationTermCfg(func=mdp.joint_vel, modifiers=[modifiers.IntegratorCfg(dt=0.1)]),
    )
    cfg = make_cfg(
        8,
        observations=terms(policy=policy, critic=group(pos=observation(mdp.joint_pos))),
        rewards=terms(best=reward(LongestPush, 1.0, asset_cfg=joint("push"))),
        nan_guard=make_cfg().nan_guard,
    )
    assert_keeps_promises(cfg)
