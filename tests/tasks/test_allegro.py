"""Isaac-Repose-Cube-Allegro-v0 has Isaac Lab 2.3's numbers, and its terms follow by hand."""

from __future__ import annotations

import math
from functools import partial

import mujoco
import pytest
import torch

from envlab.envs import VectorEnv, mdp
from tests.tasks import making
from tests.tasks.making import about_x, put

make = partial(making.make, "Isaac-Repose-Cube-Allegro-v0")
STEP_S = 4.0 / 120.0
NUM_JOINTS = 16
POS, QUAT = slice(16, 19), slice(19, 23)  # of the cube, columns of qpos
STARTUP = (
    *("robot_physics_material", "robot_scale_mass", "robot_joint_stiffness_and_damping"),
    *("object_physics_material", "object_scale_mass"),
)
ALIKE = [f"env.events.{name}=null" for name in STARTUP]
"""Overrides that make all environments alike."""


def goal(env: VectorEnv):
    return env.command_manager.get_term("object_pose")


def place(env: VectorEnv, pos=(0.0, -0.19, 0.56), quat=(1.0, 0.0, 0.0, 0.0), joint_vel=0.0) -> None:
    """Put the cubes of all environments somewhere, at rest, above a hand in its default pose."""
    qpos = env.default_qpos.repeat(env.num_envs, 1)
    qpos[:, POS], qpos[:, QUAT] = torch.tensor(pos), torch.tensor(quat)
    put(env, qpos, [joint_vel] * NUM_JOINTS + [0.0] * 6)


def set_goal(env: VectorEnv, quat) -> None:
    goal(env).command[:, 3:] = torch.tensor(quat)


def test_a_lost_cube_and_fifty_goals_end_an_episode():
    env = make(*ALIKE)
    for y, lost in ((-0.29, False), (-0.31, True)):
        place(env, pos=(0.0, y, 0.5))
        assert env._get_dones()[0].tolist() == [lost] * 3
    place(env)
    goal(env).metrics["consecutive_success"][1] = 50.0
    assert env._get_dones()[0].tolist() == [False, True, False]


def test_figures_of_the_model():
    model = make().sim.model
    cube = model.body("object/object")
    assert cube.mass[0] == 0.216
    assert model.geom("object/object").size.tolist() == [0.03] * 3
    assert (model.actuator_gainprm[:, 0] == 3.0).all()
    assert (model.actuator_biasprm[:, 2] == -0.1).all()
    assert (model.actuator_forcerange == [-0.5, 0.5]).all()
    hand = [body for body in range(model.nbody) if model.body(body).name.endswith("_link_3")]
    assert (model.body_gravcomp[hand] == 1.0).all()
    assert model.body_gravcomp[cube.id] == 0.0
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    # From the knuckle to the middle of the tip.
    reach = data.geom("middle_tip").xpos - data.body("middle_link_0").xpos
    assert math.hypot(*reach) == pytest.approx(0.0164 + 0.054 + 0.0384 + 0.019, abs=1e-6)


def test_rewards_of_a_state():
    env = make(*ALIKE)
    place(env, quat=about_x(0.4), joint_vel=2.0)
    set_goal(env, (1.0, 0.0, 0.0, 0.0))
    env.action_manager.process_action(torch.full((3, NUM_JOINTS), 0.5))
    env._get_dones()
    # 1 / (0.4 + 0.1) - 2.5e-5 16 2^2 - 1e-4 16 0.25 - 0.01 16 0.25
    expected = (2.0 - 0.0016 - 0.0004 - 0.04) * STEP_S
    assert env._get_rewards()[0].item() == pytest.approx(expected, rel=1e-4)
    set_goal(env, about_x(0.31))  # 0.09 away: reached
    expected = (1.0 / 0.19 + 250.0 - 0.042) * STEP_S
    assert env._get_rewards()[0].item() == pytest.approx(expected, rel=1e-4)


def test_a_goal_that_is_reached_is_counted_once_and_followed_by_another():
    env = make(*ALIKE)
    place(env)
    set_goal(env, (1.0, 0.0, 0.0, 0.0))
    goal(env).command[2, 3:] = torch.tensor(about_x(1.0))  # the last goal is not reached
    before = goal(env).command.clone()
    env.step(torch.zeros(3, NUM_JOINTS))
    assert goal(env).metrics["consecutive_success"].tolist() == [1.0, 1.0, 0.0]
    assert mdp.share_of_goals_reached(env, "object_pose").tolist() == [0.5, 0.5, 0.0]
    changed = (goal(env).command != before).any(dim=1)
    assert changed.tolist() == [True, True, False]
    assert torch.equal(goal(env).command[:, :3], before[:, :3])
    env.step(torch.zeros(3, NUM_JOINTS))
    assert goal(env).metrics["consecutive_success"].tolist() == [1.0, 1.0, 0.0]


def test_a_goal_stays_where_success_shall_not_change_it():
    env = make(*ALIKE, "env.commands.object_pose.update_goal_on_success=false")
    place(env)
    set_goal(env, (1.0, 0.0, 0.0, 0.0))
    before = goal(env).command.clone()
    env.step(torch.zeros(3, NUM_JOINTS))
    assert torch.equal(goal(env).command, before)
