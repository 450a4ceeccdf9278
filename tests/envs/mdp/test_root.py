"""The root's state: its origin's position, and its centre of mass's velocity."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.terms import at_reset
from tests.envs.hopper import ROLLED, make_env, place
from tests.envs.sliders import select, terms

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
BODY = mujoco.mjtObj.mjOBJ_BODY  # for it, MuJoCo gives the centre of mass's velocity


def lopsided(num_envs: int = 3, **fields) -> ManagerEnv:
    """Return blocks whose centres of mass lie elsewhere, in each environment."""
    env = make_env(num_envs, sim={"model_fields": ("body_ipos",)}, **fields)
    offsets = torch.arange(num_envs * 3.0).view(num_envs, 3) / 20.0 - 0.1
    env.sim.params.body_ipos[:, env.sim.model.body("block").id] = offsets
    env.sim.apply_params(torch.ones(num_envs, dtype=torch.bool))
    return env


def velocities(env: ManagerEnv, *, local: bool) -> torch.Tensor:
    """Return MuJoCo's velocities of the roots: angular, then linear, ``(num_envs, 6)``."""
    rows = np.zeros((env.num_envs, 6))
    for index, row in enumerate(rows):
        model, data = env.sim.model_of(index), env.sim.data_of(index)
        mujoco.mj_objectVelocity(model, data, BODY, model.body("block").id, row, int(local))
    return torch.as_tensor(rows, dtype=torch.float32)


def tumble(env: ManagerEnv) -> None:
    generator = torch.Generator().manual_seed(0)
    qpos = torch.rand(env.num_envs, 8, generator=generator) + 1.0
    qpos[:, 3:7] /= qpos[:, 3:7].norm(dim=1, keepdim=True)
    qvel = torch.randn(env.num_envs, 7, generator=generator)
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos, qvel)


def test_linear_velocity_is_that_of_the_centre_of_mass():
    env = lopsided()
    tumble(env)
    robot = select(env, "block")
    world, own = velocities(env, local=False), velocities(env, local=True)
    assert torch.allclose(mdp.root_lin_vel_w(env, robot), world[:, 3:], atol=1e-5)
    assert torch.allclose(mdp.root_ang_vel_w(env, robot), world[:, :3], atol=1e-5)
    assert torch.allclose(mdp.base_lin_vel(env, robot), own[:, 3:], atol=1e-5)
    assert torch.allclose(mdp.lin_vel_z_l2(env, robot), own[:, 5].square(), atol=1e-4)
    origin = env.sim.data.qvel[:, robot.root_lin_vel]
    assert (origin - world[:, 3:]).norm(dim=1).min() > 0.01


def test_a_reset_sets_the_velocity_of_the_centre_of_mass():
    given = {axis: (0.1 * i, 0.1 * i) for i, axis in enumerate(AXES, start=1)}
    params = {"pose_range": {"z": (1.0, 1.0), "yaw": (0.5, 0.5)}, "velocity_range": given}
    reset = at_reset(mdp.reset_root_state_uniform, **params)
    env = lopsided(events=terms(reset=reset))
    env.reset()
    expected = torch.tensor([0.4, 0.5, 0.6, 0.1, 0.2, 0.3]).expand(3, 6)
    assert torch.allclose(velocities(env, local=False), expected, atol=1e-5)


def test_poses_of_bodies_are_from_the_environments_origin():
    env = make_env(2, sim={"data_fields": ("sensordata", "xpos", "xquat")})
    place(env, height=2.0, quat=ROLLED)  # the arm's joint, 0.3 m above the block, is now at its -y
    env.env_origins[1, 0] = 10.0
    both, arm = select(env, body_names=["block", "arm"]), select(env, body_names="arm")
    block = [0.0, 0.0, 2.0, *ROLLED, 0.0, -0.3, 2.0, *ROLLED]
    poses = mdp.body_pose_w(env, both)
    assert poses[0].tolist() == pytest.approx(block, abs=1e-6)
    assert (poses[0] - poses[1]).tolist() == [10.0, *[0.0] * 6] * 2
    down = mdp.body_projected_gravity_b(env, arm)[0].tolist()
    assert down == pytest.approx([0.0, -1.0, 0.0], abs=1e-6)
    assert mdp.body_projected_gravity_b(env, both).shape == (2, 6)
