"""Returns of exported policies in ``deploy.py``'s player, beside those of ``play``.

    envlab export rsl_rl --task Isaac-Ant-v0 --checkpoint pretrained
    python scripts/benchmarks/deploy.py logs/rsl_rl/ant/pretrained/exported [--num_envs 64]

Both begin each episode in the same state and with the same commands, without noise, pushes and
randomised robots, of which the player has none. The player knows no rewards. So its physics moves
the robot, and an environment that is put into the player's state before each step keeps the score.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_env_cfg
from envlab.rl.command.evaluation import Evaluation, evaluate
from envlab.tools.deploy import Player


def main() -> None:
    """Play each folder's policy both ways, and print a row of a table for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="what 'envlab export' wrote")
    parser.add_argument("--num_envs", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=4, help="of each (default: %(default)s)")
    flags = parser.parse_args()
    print("| task | episodes | play | player | difference | its standard error | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for folder in flags.folders:
        start = time.process_time()
        task = Player(folder).cfg["task"]
        env = make_env(task, flags.num_envs)
        with torch.inference_mode():
            play = evaluate(env, Network(folder / "policy.pt"), flags.episodes)
        env.close()
        env = make_env(task, flags.num_envs)
        player = evaluate(env, Players(env, folder), flags.episodes)
        env.close()
        mean = float(play.returns.mean())
        change = float(player.returns.mean()) - mean
        error = sum(float(one.returns.var()) / len(one.returns) for one in (play, player)) ** 0.5
        print(
            f"| `{task}` | {len(play.returns)} | {told(play)} | {told(player)} "
            f"| {change / abs(mean):+.2%} | {error / abs(mean):.2%} "
            f"| {time.process_time() - start:.0f} |",
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


class Network:
    """A policy for :func:`evaluate`, as ``play`` exports it."""

    def __init__(self, path: Path) -> None:
        self._network = torch.jit.load(str(path))

    def __call__(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return its actions, ``(num_envs, num_actions)``."""
        actions: torch.Tensor = self._network(obs["policy"])
        return actions


class Players:
    """A policy for :func:`evaluate`: one player for each environment, which follows its state."""

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
        env.sim.reset(self._everywhere, *(torch.tensor(np.stack(one)).float() for one in states))
        actions = []
        for row, player in enumerate(self._players):
            for name in player.commands:
                player.commands[name] = env.command_manager.get_command(name)[row].numpy()
            actions.append(player.act())
            player.step(actions[-1])
        return torch.from_numpy(np.stack(actions))


def told(evaluation: Evaluation) -> str:
    """Return the mean return and its standard deviation."""
    return f"{evaluation.returns.mean():.3f} ± {evaluation.returns.std():.3f}"


if __name__ == "__main__":
    main()
