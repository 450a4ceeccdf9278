"""Resets of roots in any orientation, and of the whole scene."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.terms import at_reset
from envlab.errors import ConfigurationError
from tests.envs.hopper import make_env
from tests.envs.sliders import assert_spans, select, terms


def test_a_root_is_reset_in_any_orientation_within_bounds():
    ranges = {"pose_range": {"x": (-1.0, 1.0), "z": (0.5, 0.5)}, "velocity_range": {"yaw": (2, 3)}}
    reset = at_reset(mdp.reset_root_state_with_random_orientation, **ranges)
    env = make_env(512, events=terms(reset=reset))
    env.reset()
    qpos, qvel = env.sim.data.qpos, env.sim.data.qvel
    assert_spans(qpos[:, 0], -1.0, 1.0)
    assert qpos[:, 2].tolist() == pytest.approx([0.1 + 0.5] * 512)
    assert qpos[:, 3:7].norm(dim=1).tolist() == pytest.approx([1.0] * 512)
    assert (qpos[:, 3:7].square().mean(dim=0) - 0.25).abs().max() < 0.05  # uniform
    assert_spans(qvel[:, 3:6].norm(dim=1), 2.0, 3.0)  # about the world's vertical, in its frame
    block = select(env, "block")
    ang_vel = mdp.root_ang_vel_w(env, block)
    assert ang_vel[:, :2].abs().max() < 1e-5
    assert_spans(ang_vel[:, 2], 2.0, 3.0)
    assert mdp.root_lin_vel_w(env, block).abs().max() < 1e-5


def test_a_range_of_angles_is_refused():
    ranges = {"pose_range": {"yaw": (0.0, 1.0)}, "velocity_range": {}}
    reset = at_reset(mdp.reset_root_state_with_random_orientation, **ranges)
    with pytest.raises(ConfigurationError, match=r"'yaw', but every orientation .* x, y and z"):
        make_env(events=terms(reset=reset)).reset()


def test_a_scene_is_reset_to_its_defaults_at_the_environments_origin():
    moved = at_reset(
        mdp.reset_root_state_uniform, pose_range={"x": (1, 2)}, velocity_range={"x": (1, 2)}
    )
    env = make_env(2, events=terms(moved=moved, reset=at_reset(mdp.reset_scene_to_default)))
    env.env_origins.copy_(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, -1.0]]))
    env.reset()
    expected = torch.tensor([[1.0, 2.0, 3.1], [0.0, 0.0, -0.9]])
    torch.testing.assert_close(env.sim.data.qpos[:, :3], expected)
    assert env.sim.data.qpos[:, 3:].tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]] * 2
    assert env.sim.data.qvel.abs().max() == 0.0
