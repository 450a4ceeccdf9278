"""Returns of exported policies in ``deploy.py``'s player, compared with those of ``play``.

    envlab export rsl_rl --task Isaac-Ant-v0 --checkpoint pretrained
    python scripts/benchmarks/deploy.py logs/rsl_rl/ant/pretrained/exported [--num_envs 64]

Both begin each episode in the same state and with the same commands, without noise, pushes and
randomised robots, which the player lacks. The player has no rewards. So its physics moves the
robot, and an environment that is put into the player's state before each step computes the rewards.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_env_cfg
from envlab.tools.deploy import Player


def main() -> None:
    """Play each folder's policy both ways, and print a row of a table for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="what 'envlab export' wrote")
    parser.add_argument("--num_envs", type=int, default=64, help="episodes (default: 64)")
    flags = parser.parse_args()
    print("| task | episodes | play | player | difference | its standard error | same to 2 % |")
    print("|---|---|---|---|---|---|---|")
    for folder in flags.folders:
        task = Player(folder).cfg["task"]
        env = make_env(task, flags.num_envs)
        play = returns_of(env, Network(folder / "policy.pt"))
        env.close()
        env = make_env(task, flags.num_envs)
        player = returns_of(env, Players(env, folder))
        env.close()
        change, mean = player - play, play.mean().abs()
        error = change.std() / len(change) ** 0.5
        told = (f"{one.mean():.3f} ± {one.std():.3f}" for one in (play, player))
        print(
            f"| `{task}` | {len(play)} | {' | '.join(told)} | {change.mean() / mean:+.2%} "
            f"| {error / mean:.2%} | {int((change.abs() < 0.02 * play.abs()).sum())} |",
            flush=True,
        )


def make_env(name: str, num_envs: int) -> Any:
    """Return a task's environments with the robot that is exported, undisturbed."""
    task = get_task(name)
    cfg = load_env_cfg(task)
    cfg.observations.policy.enable_corruption = False
    for event, term in vars(cfg.events).items():
        if term is not None and term.mode != "reset":
            setattr(cfg.events, event, None)
    context = DistributedContext.single("cpu")
    return task.make(cfg, num_envs=num_envs, context=context, seed=0)


def returns_of(env: Any, policy: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> torch.Tensor:
    """Return each environment's return of its first episode, ``(num_envs,)``."""
    obs, _ = env.reset()
    env.episode_length_buf = torch.zeros_like(env.episode_length_buf)  # else some begin mid-episode
    total, is_over = torch.zeros(env.num_envs), torch.zeros(env.num_envs, dtype=torch.bool)
    with torch.inference_mode():
        while not is_over.all():
            obs, reward, terminated, truncated, _ = env.step(policy(obs))
            total += reward.masked_fill(is_over, 0.0)
            is_over |= terminated | truncated
    return total


class Network:
    """A policy as ``play`` exports it."""

    def __init__(self, path: Path) -> None:
        self._network = torch.jit.load(str(path))

    def __call__(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return its actions, ``(num_envs, num_actions)``."""
        actions: torch.Tensor = self._network(obs["policy"])
        return actions


class Players:
    """A policy: one player for each environment, which follows its state."""

    def __init__(self, env: Any, folder: Path) -> None:
        self._env, self._everywhere = env, torch.ones(env.num_envs, dtype=torch.bool)
        self._players = [Player(folder) for _ in range(env.num_envs)]

    def __call__(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the players' actions, which they have taken, ``(num_envs, num_actions)``."""
        env, data = self._env, self._env.sim.data
        for row, player in enumerate(self._players):
            if env.episode_length_buf[row] == 0:
                player.reset(data.qpos[row].numpy(), data.qvel[row].numpy())
        states = zip(*((one.data.qpos, one.data.qvel) for one in self._players), strict=True)
        env.sim.reset(
            self._everywhere, *(torch.tensor(np.stack(state)).float() for state in states)
        )
        actions = []
        for row, player in enumerate(self._players):
            for name in player.commands:
                player.commands[name] = env.command_manager.get_command(name)[row].numpy()
            actions.append(player.act())
            player.step(actions[-1])
        return torch.from_numpy(np.stack(actions))


if __name__ == "__main__":
    main()
