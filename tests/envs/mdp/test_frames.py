"""Frames are where MuJoCo says, seen from the world and from the robot's base."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import mdp
from tests.envs.arms import QUARTER, make_arm, pose
from tests.envs.sliders import select


def test_base_and_bodies():
    env = make_arm()
    pos, quat = mdp.base_pose(env, select(env))
    assert pos[0].tolist() == [1.0, 2.0, 0.5]
    assert quat[0].tolist() == pytest.approx([QUARTER, 0.0, 0.0, QUARTER])
    pose(env, hinge=math.pi / 2)  # with the base's quarter turn the arm points to -x
    pos, quat = mdp.body_poses(env, select(env, body_names="thumb"))
    assert pos.shape == (2, 1, 3)
    assert pos[1, 0].tolist() == pytest.approx([0.5, 2.0, 0.5], abs=1e-6)
    assert quat[1, 0].abs().tolist() == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=1e-6)


def test_sites_have_their_own_orientation():
    env = make_arm()
    pose(env, hinge=0.3)
    site, found = select(env, site_names="ee"), env.sim.data_of(0).site("ee")
    expected = np.zeros(4)
    mujoco.mju_mat2Quat(expected, found.xmat)
    place = mdp.site_positions(env, site)[0, 0]
    assert torch.allclose(place, torch.tensor(found.xpos).float(), atol=1e-6)
    quat = mdp.site_orientations(env, site)[0, 0]
    assert abs(float(quat @ torch.tensor(expected).float())) == pytest.approx(1.0, abs=1e-6)
