"""``env.scene["robot"]``: data under Isaac Lab's names, writers, and mocap bodies."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import (
    EntityCfg,
    InitialStateCfg,
    ManagerEnv,
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    ShapeCfg,
    SimulationCfg,
    mdp,
)
from envlab.envs.terms import at_reset, observation, termination
from envlab.errors import ConfigurationError
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, rank, terms
from tests.tasks.making import make

FIELDS = ("xpos", "xquat", "xipos", "cvel", "subtree_com")
BOX = """
<mujoco><worldbody><body name="box" pos="0 0 1"><freejoint name="root"/>
  <geom type="box" size="0.1 0.2 0.3" mass="2" pos="0.05 0 0"/>
  <body name="lid" pos="0 0 0.4"><joint name="hinge" axis="0 1 0"/>
    <geom type="box" size="0.1 0.1 0.02" mass="0.5" pos="0.1 0 0"/></body>
</body></worldbody><actuator><motor name="drive" joint="hinge"/></actuator></mujoco>
"""


@pytest.fixture
def box(tmp_path) -> EntityCfg:
    (tmp_path / "box.xml").write_text(BOX)
    return EntityCfg(model=str(tmp_path / "box.xml"))


def made(
    box: EntityCfg, num_envs: int = 3, backend: str = "auto", first: int = 0, **more: Any
) -> ManagerEnv:
    goal = EntityCfg(
        shape=ShapeCfg(type="sphere", size=(0.02,), collides=False),
        mocap=True,
        init_state=InitialStateCfg(pos=(1.0, 0.0, 0.5)),
    )
    events = {
        "goal": at_reset(
            mdp.reset_root_state_uniform,
            pose_range={"x": (-0.2, 0.2), "yaw": (-1.0, 1.0)},
            velocity_range={},
            asset_cfg=SceneEntityCfg("goal"),
        )
    }
    cfg = ManagerEnvCfg(
        decimation=2,
        episode_length_s=1.0,
        sim=SimulationCfg(dt=0.005, data_fields=FIELDS, backend=backend),
        scene=SceneCfg(num_envs=num_envs, entities={"robot": box, "goal": goal}, ground=False),
        observations=terms(policy=group(pos=observation(mdp.joint_pos))),
        actions=terms(drive=mdp.JointEffortActionCfg(joint_names="hinge")),
        events=terms(**(events | more)),
        terminations=terms(time_out=termination(mdp.time_out, time_out=True)),
    )
    return ManagerEnv(cfg, context=rank(0, 1), seed=3)


def everyone(env: ManagerEnv) -> torch.Tensor:
    return torch.ones(env.num_envs, dtype=torch.bool)


def test_velocities_are_those_that_mujoco_reports(box):
    env = made(box)
    robot = env.scene["robot"]
    twist = torch.tensor([[0.5, -0.2, 0.3, 1.0, -2.0, 0.7]]).repeat(3, 1)
    robot.write_root_velocity_to_sim(twist, everyone(env))
    for _ in range(5):
        env.step(torch.ones(3, 1))
    model, data = env.sim.model, env.sim.data_of(1)
    for number, name in enumerate(robot.parts.body_names):
        body, found = model.body(name).id, np.zeros(6)
        for kind, moving in (
            (mujoco.mjtObj.mjOBJ_XBODY, robot.data.body_link_lin_vel_w),
            (mujoco.mjtObj.mjOBJ_BODY, robot.data.body_lin_vel_w),
        ):
            mujoco.mj_objectVelocity(model, data, kind, body, found, 0)
            assert np.allclose(moving[1, number], found[3:], atol=1e-5), (name, kind)
            assert np.allclose(robot.data.body_ang_vel_w[1, number], found[:3], atol=1e-5)
    one = robot.data
    assert torch.allclose(one.root_lin_vel_w, one.body_lin_vel_w[:, 0], atol=1e-5)
    assert torch.allclose(one.root_link_lin_vel_w, one.body_link_lin_vel_w[:, 0], atol=1e-5)
    assert torch.allclose(one.root_lin_vel_b, one.body_lin_vel_b[:, 0], atol=1e-5)
    assert torch.allclose(one.root_ang_vel_b, mdp.base_ang_vel(env, robot.parts), atol=1e-5)
    assert torch.allclose(one.root_pos_w, one.body_pos_w[:, 0], atol=1e-6)
    assert one.root_state_w.shape == (3, 13)


def test_data_are_views_or_computed_once_in_a_step(box):
    env = made(box)
    data = env.scene["robot"].data
    assert data.joint_pos.data_ptr() == env.sim.data.qpos[:, 7:].data_ptr()
    assert data.root_com_vel_w is data.root_com_vel_w
    before = data.root_com_vel_w
    env.step(torch.zeros(3, 1))
    assert data.root_com_vel_w is not before
    assert list(env.scene) == ["robot", "goal"]
    assert env.scene["robot"].body_names == ["box", "lid"]


def test_writers_change_only_the_masked(box):
    env = made(box)
    robot, mask = env.scene["robot"], torch.tensor([True, False, True])
    pose = torch.tensor([[1.0, 2.0, 3.0, 0.0, 1.0, 0.0, 0.0]]).repeat(3, 1)
    kept = robot.data.root_pose_w[1].clone()
    twist = torch.arange(6.0).repeat(3, 1)
    robot.write_root_state_to_sim(torch.cat((pose, twist), dim=1), mask)
    assert torch.equal(robot.data.root_pose_w[0], pose[0])
    assert torch.equal(robot.data.root_pose_w[1], kept)
    assert torch.allclose(robot.data.root_vel_w[2], twist[2], atol=1e-5)
    robot.write_joint_state_to_sim(torch.full((3, 1), 0.3), torch.full((3, 1), 2.0), mask)
    assert torch.allclose(robot.data.joint_pos[:, 0], torch.tensor([0.3, 0.0, 0.3]))
    assert torch.equal(robot.data.root_pose_w[0], pose[0])
    force = torch.tensor([0.0, 0.0, 5.0]).expand(3, 1, 3)
    robot.set_external_force_and_torque(force, torch.zeros(3, 1, 3), mask, body_names="lid")
    lid = env.sim.model.body("robot/lid").id
    assert env.sim.xfrc_applied[:, lid, 2].tolist() == [5.0, 0.0, 5.0]


def rise(env: Any, mask: torch.Tensor, stream: Any, height: float) -> None:
    """Start a robot higher, by the writers."""
    robot = env.scene["robot"]
    pose = robot.data.default_root_state[:, :7].clone()
    pose[:, 2] = height
    robot.write_root_pose_to_sim(pose, mask)


def test_writers_stage_in_a_resets_terms(box):
    env = made(box, rise=at_reset(rise, height=4.0))
    assert env.scene["robot"].data.root_pos_w[:, 2].tolist() == [4.0] * 3


@pytest.mark.parametrize("backend", ["mujoco", "mujoco_warp"])
def test_mocap_bodies_have_a_pose_in_each_environment(box, backend):
    env = made(box, backend=backend)
    goal = env.scene["goal"]
    starts = goal.data.root_pos_w.clone()
    assert starts[:, 0].unique().numel() == 3
    assert ((starts[:, 0] - 1.0).abs() <= 0.2).all()
    env.step(torch.zeros(3, 1))
    body = env.sim.model.body("goal/goal").id
    assert torch.allclose(env.sim.data.xpos[:, body], starts, atol=1e-6)
    moved = torch.tensor([[2.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]]).repeat(3, 1)
    goal.write_root_pose_to_sim(moved, torch.tensor([False, True, False]))
    env.step(torch.zeros(3, 1))
    assert torch.allclose(env.sim.data.xpos[1, body], moved[1, :3])
    assert torch.allclose(env.sim.data.xpos[0, body], starts[0], atol=1e-6)
    state = env.state()
    again = made(box, backend=backend)
    again.set_state(state)
    assert torch.equal(again.scene["goal"].data.root_pose_w, goal.data.root_pose_w)
    for _ in range(3):
        env.step(torch.ones(3, 1))
        again.step(torch.ones(3, 1))
    assert torch.equal(again.sim.data.xpos, env.sim.data.xpos)


def test_what_a_thing_cannot_do_is_said(box):
    env = made(box)
    still = made(box)
    assert_refused(
        {
            "has no 'cup'; its things are robot, goal": lambda: env.scene["cup"],
            "No joint of the thing 'robot' matches 'knee'": lambda: env.scene["robot"].find(
                joint_names="knee"
            ),
            "'qacc' was not declared": lambda: env.scene["robot"].data.joint_acc,
            "root state of 'goal', which has no free joint": lambda: still.scene[
                "goal"
            ].write_root_velocity_to_sim(torch.zeros(3, 6), everyone(still)),
        },
        ConfigurationError,
    )


def test_the_things_of_one_file_are_the_robot_and_what_else_moves():
    """A drawer that the robot opens is part of the scene's state, the cabinet's box is not."""
    env = make("Isaac-Open-Drawer-Franka-v0", num_envs=2)
    assert list(env.scene) == ["robot", "cabinet"]
    state = env.scene.get_state()
    joints = [state["articulation"][name]["joint_position"].shape[1] for name in env.scene]
    assert sum(joints) == env.sim.model.nq
    opened = state["articulation"]["cabinet"]["joint_position"] + 0.1
    state["articulation"]["cabinet"]["joint_position"] = opened
    env.scene.reset_to(state, torch.tensor([False, True]))
    found = env.scene["cabinet"].data.joint_pos
    assert torch.allclose(found[1], opened[1])
    assert torch.allclose(found[0], opened[0] - 0.1)
