"""Inverse kinematics brings the frame of the action to where the action says."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.controlled_frame import DifferentialIKControllerCfg as Controller
from envlab.envs.math import quat_error_magnitude
from envlab.envs.mdp.ik_actions import DifferentialInverseKinematicsAction
from envlab.errors import ConfigurationError
from envlab_tasks.manipulation.franka import stiff_scene
from tests.envs.arms import FIELDS, make_arm, pose
from tests.envs.sliders import make_cfg, rank, terms

DOWN = [0.0, 0.0, 1.0, 0.0]
"""A hand that points down: half a turn about y."""


def franka(**changes) -> ManagerEnv:
    """Return a Panda in its home pose, which gravity does not pull, with the stiff gains."""
    values = {
        **{"joint_names": "panda_joint.*", "body_name": "panda_hand"},
        "body_offset": mdp.OffsetCfg(pos=(0.0, 0.0, 0.1034)),
        "controller": Controller(),
    }
    action = mdp.DifferentialInverseKinematicsActionCfg(**(values | changes))
    cfg = make_cfg(2, sim={"dt": 1 / 60, "data_fields": FIELDS}, actions=terms(arm=action))
    cfg.decimation, cfg.episode_length_s = 2, 1000.0
    cfg.scene = stiff_scene("franka_reach", 2)
    return ManagerEnv(cfg, context=rank(0, 1), seed=0)


def frame(env: ManagerEnv) -> tuple[torch.Tensor, torch.Tensor]:
    term = env.action_manager.get_term("arm")
    assert isinstance(term, DifferentialInverseKinematicsAction)
    return term.frame.pose()


@pytest.mark.parametrize("each_substep", [False, True])
def test_the_arm_converges_to_a_pose(each_substep: bool):
    env = franka(each_substep=each_substep)
    assert env.action_manager.get_term("arm").control_each_substep == each_substep
    goals = torch.tensor([[0.5, 0.2, 0.3, *DOWN], [0.4, -0.3, 0.5, *DOWN]])
    for _ in range(200 if each_substep else 90):
        env.step(goals)
    pos, quat = frame(env)
    assert (pos - goals[:, :3]).norm(dim=1).max() < 1e-3
    assert quat_error_magnitude(quat, goals[:, 3:]).max() < 1e-2


def test_the_frame_is_at_its_offset_and_a_scale_and_a_clip_apply():
    env = franka(scale=0.1, clip=(-0.05, 0.05), controller=Controller(use_relative_mode=True))
    start = frame(env)[0].clone()
    site = env.sim.data.site_xpos[:, env.sim.model.site("ee").id]
    assert torch.allclose(start, site, atol=1e-6)
    seen = []
    term = env.action_manager.get_term("arm")
    goal = term.goal
    term.goal = lambda commands, *pose: seen.append(commands) or goal(commands, *pose)
    env.step(torch.tensor([[0.2, -9.0, 0.0, 0.0, 0.0, 0.0]] * 2))
    assert seen[0][0].tolist() == pytest.approx([0.02, -0.05, 0.0, 0.0, 0.0, 0.0])


def test_relative_commands_move_and_turn_the_frame():
    """The goal is ahead of the present pose, so a constant command is a constant velocity."""
    env = franka(controller=Controller(use_relative_mode=True))
    start_pos, start_quat = (values.clone() for values in frame(env))
    for _ in range(40):
        env.step(torch.tensor([[0.0, 0.0, 0.02, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.05]]))
    pos, quat = frame(env)
    moved = pos - start_pos
    assert moved[0, 2] > 0.05
    assert moved[0, :2].norm() < 0.1 * moved[0, 2]
    assert quat_error_magnitude(quat, start_quat)[0] < 0.05
    assert quat_error_magnitude(quat, start_quat)[1] > 0.2
    assert moved[1].norm() < 0.02


def test_a_quaternion_of_zeros_keeps_the_orientation():
    env = franka()
    pos, quat = (values.clone() for values in frame(env))
    for _ in range(10):
        env.step(torch.cat((pos, torch.zeros(2, 4)), dim=1))
    assert (frame(env)[0] - pos).norm(dim=1).max() < 1e-3
    assert quat_error_magnitude(frame(env)[1], quat).max() < 1e-3
    with pytest.raises(ConfigurationError, match=r"'panda_link\.\*' of an inverse kinematics"):
        franka(body_name="panda_link.*")


def test_commands_are_in_the_frame_of_the_base():
    """The base is turned by a quarter: its y is the world's -x, which the hinge turns towards."""
    action = mdp.DifferentialInverseKinematicsActionCfg(
        joint_names="hinge",
        body_name="link",
        body_offset=mdp.OffsetCfg(pos=(0.5, 0.0, 0.0)),
        controller=Controller(command_type="position", ik_method="pinv"),
    )
    env = make_arm(actions=terms(arm=action))
    pose(env)
    env.step(torch.tensor([[0.5, 0.05, 0.0]] * 2))
    # 0.05 m at a radius of 0.5 m
    assert env.sim.ctrl[:, 0].tolist() == pytest.approx([0.1] * 2, rel=1e-4)
    assert math.isclose(env.sim.ctrl[0, 1], 0.0)
