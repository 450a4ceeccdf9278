"""rsl_rl's own runner on envlab's environments."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import torch
from rsl_rl.runners import OnPolicyRunner
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from tests.trained import session_of

CARTPOLE = "Isaac-Cartpole-v0"


def test_its_own_runner_trains_logs_and_saves(tmp_path: Path):
    cfg = session_of("rsl_rl", [f"--task={CARTPOLE}"]).agent_cfg.for_library()
    env = RslRlVecEnvWrapper(gymnasium.make(CARTPOLE, num_envs=8, device="cpu").unwrapped)
    runner = OnPolicyRunner(env, cfg, log_dir=str(tmp_path), device="cpu")
    runner.logger.git_status_repos = []  # else its git processes outlive the test
    runner.learn(2, init_at_random_ep_len=True)
    assert (tmp_path / "model_1.pt").exists()
    events = EventAccumulator(str(tmp_path)).Reload()
    values = [event.value for event in events.Scalars("Episode_Reward/alive")]
    assert len(values) == 2
    assert all(torch.isfinite(torch.tensor(values)))


def test_a_reset_begins_all_episodes_anew():
    env = RslRlVecEnvWrapper(gymnasium.make(CARTPOLE, num_envs=2, device="cpu").unwrapped)
    _, _, _, extras = env.step(torch.zeros(2, 1))
    assert extras["log"] == extras["info"]["log"]
    obs, _ = env.reset()
    assert env.episode_length_buf.tolist() == [0, 0]
    assert torch.equal(obs["policy"], env.get_observations()["policy"])
    env.close()
