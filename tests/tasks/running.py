"""Helpers shared by the tests of Ant and Humanoid."""

from __future__ import annotations

import math
from functools import partial

import torch

from envlab.envs import VectorEnv
from tests.tasks import making

STEP_S = 2.0 / 120.0
make = partial(making.make, num_envs=2)


def place(
    env: VectorEnv,
    position: tuple[float, float, float],
    *,
    yaw: float = 0.0,
    before: tuple[float, float] | None = None,
    joints: dict[str, float] | None = None,
    velocity: list[float] | None = None,
    joint_velocity: float = 0.0,
) -> None:
    """Put all environments into one state, in m, rad, and their rates.

    ``before`` is where the torso was a step earlier, and ``velocity`` its linear (world) and
    angular (body) velocity. Joints that are not named are in the middle of their ranges.
    """
    model = env.sim.model
    qpos = torch.zeros(env.num_envs, model.nq)
    qpos[:, :3] = torch.tensor(position)
    qpos[:, 3], qpos[:, 6] = math.cos(yaw / 2.0), math.sin(yaw / 2.0)
    qpos[:, 7:] = torch.as_tensor(model.jnt_range[1:].mean(axis=1), dtype=torch.float32)
    for name, value in (joints or {}).items():
        qpos[:, model.joint(name).qposadr[0]] = value
    making.put(env, qpos, [*(velocity or [0.0] * 6), *[joint_velocity] * (model.nv - 6)])
    env.last_qpos.copy_(qpos)
    env.last_qpos[:, :2] = torch.tensor(before or position[:2])


def act(env: VectorEnv, action: float) -> None:
    """Let the environment take one action in all joints, without physics."""
    # private: a step would move the robot from the state whose reward is known by hand.
    env._apply_actions(torch.full_like(env.actions, action))


def reward(env: VectorEnv) -> float:
    """Return the reward of a step that ends in the present state."""
    env._get_dones()
    return env._get_rewards()[0].item()


def observed(env: VectorEnv) -> list[float]:
    return env._get_observations()["policy"][0].tolist()
