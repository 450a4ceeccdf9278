"""Groups of observations that are dictionaries of their terms, in the interfaces of others."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

from envlab.envs import BatchedEnv
from envlab.envs.wrappers.gymnasium import NumpyVectorEnv
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.errors import ConfigurationError
from envlab.registry import discover, get_task, load_env_cfg
from envlab.skrl.env import ObservationPacker, SkrlVectorEnv

discover()
POS, VEL = "joint_pos_rel", "joint_vel_rel"


def make() -> BatchedEnv:
    cfg = load_env_cfg(get_task("Isaac-Cartpole-v0"))
    cfg.observations.policy.concatenate_terms = False
    env = gymnasium.make("Isaac-Cartpole-v0", cfg=cfg, num_envs=3, device="cpu", seed=1).unwrapped
    env.episode_length_buf = torch.tensor([0, env.max_episode_length - 1, 0])
    return env


def test_gymnasium_has_a_dictionary_of_arrays_within_its_space():
    for mode in ("NextStep", "SameStep"):
        env = NumpyVectorEnv(make(), action_scale=1.0, autoreset_mode=mode)
        assert env.single_observation_space[POS].shape == (2,)
        obs, *_, truncated, info = env.step(np.zeros((3, 1), np.float32))
        assert obs in env.observation_space
        assert truncated.tolist() == [False, True, False]
        last = env.env.obs_buf["policy"][POS][1].numpy()  # the new episode's first
        assert np.array_equal(obs[POS][1], last) == (mode == "SameStep")
        if mode == "SameStep":
            assert not np.array_equal(info["final_obs"][1][POS], last)


def test_sb3_and_torchrl_have_dictionaries():
    sb3 = pytest.importorskip(
        "envlab.envs.wrappers.sb3", reason="needs stable-baselines3: pip install -e '.[test]'"
    ).Sb3VecEnvWrapper(make())
    obs, _, dones, infos = sb3.step(np.zeros((3, 1), np.float32))
    assert {name: values.shape for name, values in obs.items()} == {POS: (3, 2), VEL: (3, 2)}
    assert dones.tolist() == [False, True, False]
    assert infos[1]["terminal_observation"][VEL].shape == (2,)
    torchrl = pytest.importorskip(
        "envlab.envs.wrappers.torchrl", reason="needs torchrl: pip install -e '.[test]'"
    ).TorchRlEnvWrapper(make())
    rollout = torchrl.rollout(2, break_when_any_done=False)
    assert rollout["next", "policy", POS].shape == (3, 2, 2)


def test_skrl_has_terms_by_name_in_the_order_of_its_vectors():
    base = make()
    env = SkrlVectorEnv(base)
    assert list(env.spaces["agent"].observation_space.spaces) == [POS, VEL]
    step = env.advance(torch.zeros(3, 1))
    seen = base.obs_buf["policy"]
    assert torch.equal(step.observations, torch.cat([seen[POS], seen[VEL]], dim=1))
    differs = (step.final_observations != step.observations).any(dim=1)
    assert differs.tolist() == [False, True, False]
    both = gymnasium.spaces.Dict({**base.single_observation_space, "more": base.action_space})
    with pytest.raises(ConfigurationError, match="'policy' is a dictionary of its terms"):
        ObservationPacker(both, {"observations": ["policy", "more"], "states": []})


def test_rsl_rl_refuses_them():
    with pytest.raises(ConfigurationError, match=r"dictionary of its terms \(joint_pos_rel, joint"):
        RslRlVecEnvWrapper(make())
