"""A picture of each episode: the agent's path on a map."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from envlab_navigation.furniture import TARGETS
from envlab_navigation.metrics import ENDS
from envlab_navigation.nav_env import NavEnv
from envlab_navigation.pictures import draw_episode


class WayRecorder:
    """Draws each episode on a map, as a file in a folder, while :func:`evaluate` runs."""

    def __init__(self, env: NavEnv, folder: Path, episodes_per_env: int) -> None:
        """Watch ``env``, which must be reset next.

        Args:
            env: The environment.
            folder: Folder of the pictures.
            episodes_per_env: Number of episodes to draw of each environment.
        """
        self._env, self._folder = env, folder
        self._left = [episodes_per_env] * env.num_envs
        self._poses: list[list[np.ndarray]] = [[] for _ in range(env.num_envs)]
        self._where: list[tuple[int, int]] = []
        self.paths: list[Path] = []
        """Files of the pictures."""

    def before_step(self) -> None:
        """Record the agents' positions."""
        env = self._env
        self._where = list(zip(env.slot.tolist(), env.goal.tolist(), strict=True))
        for poses, pose in zip(self._poses, env.pose.cpu().numpy().copy(), strict=True):
            poses.append(pose)

    def after_step(self) -> None:
        """Draw the episodes that have ended."""
        for row in np.flatnonzero(self._env.episode_length_buf.cpu().numpy() == 0).tolist():
            poses, self._poses[row] = self._poses[row], []
            if self._left[row]:
                self._left[row] -= 1
                self._draw(row, poses)

    def _draw(self, row: int, poses: list[np.ndarray]) -> None:
        slot, goal = self._where[row]
        ended = self._env.ended_episodes or {}
        measures = {name: float(values[row]) for name, values in ended.items()}
        name = TARGETS[goal] if goal < len(TARGETS) else "point"
        end, house = ENDS[int(measures["end"])], self._env.houses.name_of(slot)
        title = f"{house}, {name}: {end}, SPL {measures['spl']:.2f}, {measures['steps']:.0f} steps"
        arrays = self._env.houses.arrays
        here = {name: values[slot].cpu().numpy() for name, values in arrays.items()}
        path = self._folder / f"{len(self.paths):04d}_{house}_{name}_{end}.png"
        draw_episode(here, goal, poses, title).save(path)
        self.paths.append(path)
