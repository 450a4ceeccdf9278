"""Stable-Baselines3 itself on envlab's environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

from envlab.registry import discover, get_task, load_env_cfg

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3: pip install -e '.[test]'")

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from envlab.envs.wrappers.sb3 import Sb3VecEnvWrapper

discover()
EPISODE_STEPS = 12


def make(num_envs: int = 4, task: str = "Isaac-Cartpole-v0", **kwargs) -> Sb3VecEnvWrapper:
    cfg = load_env_cfg(get_task(task))
    cfg.episode_length_s = EPISODE_STEPS * cfg.step_dt
    env = gymnasium.make(task, cfg=cfg, num_envs=num_envs, device="cpu", seed=1)
    return Sb3VecEnvWrapper(env.unwrapped, **kwargs)


def test_a_step_gives_numpy_and_sb3s_entries_for_ended_episodes():
    env = make()
    env.seed(3)
    first = env.reset()
    limit = env.env.max_episode_length
    env.env.episode_length_buf = torch.tensor([0, limit - 2, 0, 0])
    beyond = torch.tensor([[3.5, 0.0]]).expand(4, 2)  # the cart of environment 2
    env.env.sim.reset(torch.tensor([False, False, True, False]), beyond)
    kept, total = env.reset_infos, np.zeros(4)
    assert kept == [{}] * 4
    for step in (1, 2):
        obs, rewards, dones, infos = env.step(np.zeros((4, 1), dtype=np.float32))
        total += rewards
        assert [type(values) for values in (obs, rewards, dones)] == [np.ndarray] * 3
        assert (obs.dtype, rewards.dtype, dones.dtype) == (np.float32, np.float32, np.bool_)
        if step == 1:
            assert dones.tolist() == [False, False, True, False]
            assert infos[0] == infos[1] == infos[3] == {}
            assert infos[2]["TimeLimit.truncated"] is False
            assert abs(infos[2]["terminal_observation"][0]) > 3.0
            assert abs(obs[2, 0]) < 3.0  # of the new episode
    assert dones.tolist() == [False, True, False, False]
    assert infos[1]["TimeLimit.truncated"] is True
    assert infos[1]["episode"]["l"] == 2
    assert infos[1]["episode"]["r"] == pytest.approx(total[1])
    assert env.log.keys() >= {"Episode_Reward/alive"}
    env.seed(3)
    assert np.array_equal(env.reset(), first)


@pytest.mark.parametrize(
    "task", ["Isaac-Cartpole-v0", "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0"]
)
def test_its_ppo_trains_with_its_own_wrappers_and_evaluation(task: str):
    env = VecNormalize(make(8, task))
    agent = PPO("MlpPolicy", env, n_steps=16, batch_size=64, n_epochs=1, device="cpu", seed=0)
    agent.learn(256)
    assert agent.num_timesteps == 256
    assert len(agent.ep_info_buffer) > 0
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=4, warn=False)
    assert np.isfinite(mean)
    env.close()


def test_attributes_are_those_of_the_one_environment():
    env = make(3)
    assert env.get_attr("num_envs", [0, 2]) == [3, 3]
    env.set_attr("log_dir", None)
    with pytest.raises(ValueError, match="Leave indices out"):
        env.env_method("check_health", indices=[1])
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False] * 3
