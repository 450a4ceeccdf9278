"""A visitor's actions on environments, and the data that is sent to the page with their state.

The run itself carries them out between two steps.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
import torch

from envlab.envs import BatchedEnv, ManagerEnv
from envlab.envs.managers.command import CommandTerm
from envlab_web.viewer.messages import Bounds, Markers, Wishes

MAX_MARKERS = 100


class Steering:
    """Pushes, commands, and other actions that are requested once and done once."""

    def __init__(self, env: BatchedEnv) -> None:
        self._env: Any = env
        self._done: dict[str, int] = {}
        self._held: set[str] = set()

    def take(self, name: str, wishes: Wishes) -> bool:
        """Return whether there are new requests since the last call, and count them as done."""
        asked: int = getattr(wishes, name)
        done, self._done[name] = self._done.get(name, 0), asked
        return asked > done

    def hold(self, wishes: Wishes) -> None:
        """Apply the visitor's commands, even if an episode has drawn its own; call in each step.

        The policy sees them with the next step's observations.
        """
        terms = _terms(self._env)
        for name, values in wishes.commands.items():
            terms[name].hold(values)
        for name in self._held - set(wishes.commands):
            terms[name].time_left.zero_()  # the task draws again
        self._held = set(wishes.commands)

    def push(self, rows: slice, speed: float) -> None:
        """Change velocities immediately, in a random horizontal direction if possible.

        Args:
            rows: The environments.
            speed: In m/s, or that of the first joint of fixed robots.
        """
        env, model = self._env, self._env.sim.model
        free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
        start = int(model.jnt_dofadr[free[0]]) if len(free) else 0
        angle = random.uniform(-math.pi, math.pi)  # not from the training's generator
        change = [math.cos(angle), math.sin(angle)] if len(free) else [math.copysign(1.0, angle)]
        qvel = env.sim.data.qvel.clone()
        qvel[rows, start : start + len(change)] += speed * torch.tensor(change, device=env.device)
        mask = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        mask[rows] = True
        env.sim.set_velocity(mask, qvel)


def shown_commands(env: BatchedEnv) -> Mapping[str, Bounds]:
    """Return the bounds of commands, by the command's name."""
    return {name: bounds for name, term in _terms(env).items() if (bounds := term.bounds())}


def rewards_of(env: BatchedEnv, index: int) -> dict[str, float]:
    """Return an environment's reward of its last step, per second: by term if there are terms."""
    if isinstance(env, ManagerEnv):
        values = env.reward_manager.step_values[:, index].tolist()
        rewards = dict(zip(env.reward_manager.active_terms, values, strict=True))
        return {"total": sum(values) / env.step_dt} | {
            name: value / env.step_dt for name, value in rewards.items()
        }
    if not hasattr(env, "reward_buf"):
        return {}
    return {"total": float(env.reward_buf[..., index].sum()) / env.step_dt}


def marker_geoms(env: BatchedEnv) -> Markers:
    """Return the drawings of environment 0 in addition to its bodies."""
    scene = mujoco.MjvScene(env.sim.model, MAX_MARKERS)  # type: ignore[attr-defined]
    env.add_markers(scene)  # type: ignore[attr-defined]
    geoms = scene.geoms[: scene.ngeom]
    return Markers(
        types=np.array([int(geom.type) for geom in geoms]),
        positions=np.array([geom.pos for geom in geoms]).reshape(-1, 3),
        rotations=np.array([geom.mat for geom in geoms]).reshape(-1, 3, 3),
        sizes=np.array([geom.size for geom in geoms]).reshape(-1, 3),
        colours=np.array([geom.rgba for geom in geoms]).reshape(-1, 4),
    )


def _terms(env: Any) -> dict[str, CommandTerm]:
    manager = getattr(env, "command_manager", None)
    if manager is None:
        return {}
    return {name: manager.get_term(name) for name in manager.active_terms}
