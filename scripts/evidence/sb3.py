"""Train and play with Stable-Baselines3 2.9.2 alone, as a contender of an experiment.

    python sb3.py --algorithm=SAC --task=gym:Pendulum-v1 --seed=0 --max_frames=1e4 --num_episodes=9

Its settings are those of skrl's agents in envlab where the two libraries' own differ: layers of 32
and 32 with ELU, a learning rate of 1e-3, batches of 256, 1,000 random actions first, and noises of
0.1. It writes ``logs/sb3/TASK/SEED/{run.json,metrics.jsonl}`` and ``played.json``, like envlab.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise

from envlab.commit import git_state
from envlab.run.manifest import write_json
from envlab.run.records import METRICS, line_of

INTERVAL = 200
"""Frames between two lines of the metrics."""
OTHER_STATES = 10_000
"""Added to the seed for the episodes to play."""


class Curve(BaseCallback):
    """Writes the mean return of the last episodes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._start = path, time.perf_counter()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:  # after each step; the library has counted its episodes
        episodes = self.model.ep_info_buffer
        if self.num_timesteps % INTERVAL == 0 and episodes:
            line = {
                "iteration": self.num_timesteps // INTERVAL,
                "frames": self.num_timesteps,
                "wall_s": time.perf_counter() - self._start,
                "mean_return": float(np.mean([episode["r"] for episode in episodes])),
            }
            with self._path.open("ab") as file:
                file.write(line_of(line))


def learner(algorithm: str, env: gymnasium.Env, seed: int) -> stable_baselines3.SAC:
    """Return the library's agent."""
    zeros = np.zeros(env.action_space.shape or ())
    noise = NormalActionNoise(zeros, zeros + 0.1)
    own = {"ent_coef": "auto_0.2"} if algorithm == "SAC" else {"action_noise": noise}
    return getattr(stable_baselines3, algorithm)(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        buffer_size=100_000,
        learning_starts=1_000,
        batch_size=256,
        tau=0.005,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": [32, 32], "activation_fn": torch.nn.ELU},
        seed=seed,
        device="cpu",
        **own,
    )


def main() -> None:
    """Train, play, and write what an experiment records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithm", choices=("SAC", "TD3", "DDPG"), required=True)
    parser.add_argument("--task", required=True, help="gym:ID")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--max_frames", type=float, required=True)
    parser.add_argument("--num_episodes", type=int, required=True)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    name = flags.task.removeprefix("gym:")
    folder = Path("logs/sb3") / name / str(flags.seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).unlink(missing_ok=True)
    agent = learner(flags.algorithm, Monitor(gymnasium.make(name)), flags.seed)
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    agent.learn(int(flags.max_frames), callback=Curve(folder / METRICS))

    env = make_vec_env(name, n_envs=64, seed=flags.seed + OTHER_STATES)
    returns, _ = evaluate_policy(
        agent, env, n_eval_episodes=flags.num_episodes, return_episode_rewards=True
    )
    write_json(
        Path("played.json"), {"num_episodes": flags.num_episodes, "return": float(np.mean(returns))}
    )
    packages = (stable_baselines3, torch, gymnasium, np)
    manifest = {
        "version": 1,
        "task": flags.task,
        "library": "stable_baselines3",
        "algorithm": flags.algorithm,
        "seed": flags.seed,
        "created_at": begun,
        "status": "finished",
        "num_envs": 1,
        "global_num_envs": 1,
        "versions": {package.__name__: package.__version__ for package in packages},
        "git": git_state(),
    }
    write_json(folder / "run.json", manifest)
    print(json.dumps(manifest, indent=2))


if __name__ == "__main__":
    main()
