"""Orders of joints are those of the simulators, and policies and data sets move between them."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import nn

from envlab.envs import SceneEntityCfg
from envlab.envs.joint_order import JointOrder, joint_names
from envlab.envs.scene import load_model
from tests.envs.refusals import assert_refused
from tests.tasks.making import make

ROBOTS = dict.fromkeys(("go2", "h1", "g1", "allegro", "franka"), "name") | dict.fromkeys(
    ("ant", "humanoid"), "file"
)
# Printed by Isaac Lab for its G1 (three public repositories agree).
ISAACLAB_G1 = """
left_hip_pitch_joint right_hip_pitch_joint torso_joint left_hip_roll_joint right_hip_roll_joint
left_shoulder_pitch_joint right_shoulder_pitch_joint left_hip_yaw_joint right_hip_yaw_joint
left_shoulder_roll_joint right_shoulder_roll_joint left_knee_joint right_knee_joint
left_shoulder_yaw_joint right_shoulder_yaw_joint left_ankle_pitch_joint right_ankle_pitch_joint
left_elbow_pitch_joint right_elbow_pitch_joint left_ankle_roll_joint right_ankle_roll_joint
left_elbow_roll_joint right_elbow_roll_joint left_five_joint left_three_joint left_zero_joint
right_five_joint right_three_joint right_zero_joint left_six_joint left_four_joint left_one_joint
right_six_joint right_four_joint right_one_joint left_two_joint right_two_joint""".split()
# joint_gears in isaaclab_tasks/direct/humanoid/humanoid_env.py, 2.3.2: by body, right before left.
ISAACLAB_HUMANOID = """
lower_waist:0 lower_waist:1 right_upper_arm:0 right_upper_arm:1 left_upper_arm:0 left_upper_arm:1
pelvis right_lower_arm left_lower_arm right_thigh:0 right_thigh:1 right_thigh:2 left_thigh:0
left_thigh:1 left_thigh:2 right_shin left_shin right_foot:0 right_foot:1 left_foot:0 left_foot:1
""".split()


@functools.cache
def names(robot: str, convention: str) -> list[str]:
    model = load_model(f"envlab_assets:robots/{robot}.xml")
    return joint_names(model, convention, siblings=ROBOTS[robot])


def to_envlab(robot: str, convention: str = "isaaclab") -> JointOrder:
    return JointOrder(names(robot, convention), names(robot, "envlab"))


def test_isaac_labs_order_of_g1_and_humanoid_is_the_printed_one():
    assert names("g1", "isaaclab") == ISAACLAB_G1
    assert names("humanoid", "isaaclab") == ISAACLAB_HUMANOID


def test_isaac_labs_order_takes_all_legs_joint_by_joint():
    legs = ("FL", "FR", "RL", "RR")
    parts = ("hip", "thigh", "calf")
    assert names("go2", "isaaclab") == [f"{leg}_{part}_joint" for part in parts for leg in legs]
    fingers = ("index", "middle", "ring", "thumb")
    expected = [f"{finger}_joint_{joint}" for joint in range(4) for finger in fingers]
    assert names("allegro", "isaaclab") == expected
    assert names("franka", "isaaclab") == names("franka", "envlab")


def test_isaac_gyms_order_takes_leg_by_leg_and_sorts_urdf_joints():
    for robot in ("go2", "h1", "allegro", "franka", "ant", "humanoid"):
        assert names(robot, "isaacgym") == names(robot, "envlab")
    hand = [name for name in names("g1", "isaacgym") if name.startswith("left_")][-7:]
    assert hand == [f"left_{n}_joint" for n in "five six three four zero one two".split()]


def test_there_and_back_is_the_identity():
    generator = torch.Generator().manual_seed(0)
    for robot in ROBOTS:
        for convention in ("isaaclab", "isaacgym"):
            order = to_envlab(robot, convention)
            actions = torch.rand(3, len(order.indices), generator=generator)
            assert torch.equal(order.inverse().actions(order.actions(actions)), actions)
            rows = torch.rand(3, 5 + 2 * len(order.indices), generator=generator)
            starts = [2, 2 + len(order.indices)]
            there = order.observations(rows, starts)
            assert torch.equal(order.inverse().observations(there, starts), rows)
            assert torch.equal(there[:, :2], rows[:, :2])
            assert torch.equal(there[:, -3:], rows[:, -3:])


def test_data_sets_in_numpy_keep_each_joints_values():
    order = to_envlab("g1")
    steps = np.arange(2 * 3 * 37.0).reshape(2, 3, 37)
    moved = order.actions(steps)
    for joint in ("torso_joint", "left_five_joint", "right_knee_joint"):
        column = steps[..., order.source.index(joint)]
        assert (moved[..., names("g1", "envlab").index(joint)] == column).all()


def test_only_the_robots_joints_are_ordered_in_a_scene_with_others():
    model = load_model("envlab_assets:robots/franka_cabinet.xml")
    assert joint_names(model, "isaaclab") == names("franka", "envlab")  # not the drawer's
    hand = SceneEntityCfg("robot", joint_names="panda_finger.*")
    assert joint_names(model, "isaacgym", asset_cfg=hand) == names("franka", "envlab")[-2:]


class Policy(nn.Module):
    """A normaliser, two layers, a spread, and a critic, as the libraries keep them."""

    def __init__(self, num_obs: int, num_actions: int, hidden: int = 16) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(num_obs, hidden), nn.ELU(), nn.Linear(hidden, num_actions)
        )
        self.value = nn.Linear(num_obs, 1)
        self.log_std = nn.Parameter(torch.arange(float(num_actions)))
        self.register_buffer("mean", torch.rand(1, num_obs))
        self.register_buffer("var", 1.0 + torch.rand(num_obs))

    def normalised(self, obs: torch.Tensor) -> torch.Tensor:
        return (obs - self.mean) / self.var.sqrt()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.normalised(obs))


@pytest.fixture(scope="module")
def go2():
    """A Go2 without noise, and the first columns of its joints in the observations."""
    clean = "env.observations.policy.enable_corruption=false"
    env = make("Isaac-Velocity-Flat-Unitree-Go2-v0", clean, num_envs=2)
    columns = env.observation_manager.columns("policy")
    assert columns["projected_gravity"] == slice(6, 9)
    return env, [columns[name].start for name in ("joint_pos", "joint_vel", "actions")]


def test_a_moved_policy_drives_the_robot_as_the_original_does(go2):
    env, starts = go2
    assert starts == [12, 24, 36]
    torch.manual_seed(0)
    order = to_envlab("go2")
    original, moved = Policy(48, 12), Policy(48, 12)
    moved.load_state_dict(order.policy(original.state_dict(), 48, starts))
    with torch.no_grad():
        obs = env.reset(seed=1)[0]["policy"]
        for _ in range(20):
            theirs = order.inverse().observations(obs, starts)
            actions = moved(obs)
            expected = order.actions(original(theirs))
            assert torch.allclose(actions, expected, atol=1e-5)
            values = moved.value(moved.normalised(obs))
            their_values = original.value(original.normalised(theirs))
            assert torch.allclose(values, their_values, atol=1e-5)
            obs = env.step(actions)[0]["policy"]
    assert moved.log_std.tolist() == [0.0, 4.0, 8.0, 1.0, 5.0, 9.0, 2.0, 6.0, 10.0, 3.0, 7.0, 11.0]


def test_an_optimizers_averages_move_with_its_parameters():
    order = to_envlab("go2")
    weight, first = torch.rand(12, 16), torch.rand(16, 48)
    adam = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": 2 * weight}}, "param_groups": [7]}
    model = {"actor": {"first": first, "last": weight}, "optimizer": adam}
    moved = order.policy(model, 48, [12])
    assert torch.equal(moved["actor"]["last"], weight[order.indices])
    assert torch.equal(moved["optimizer"]["state"][0]["exp_avg"], 2 * weight[order.indices])
    assert moved["optimizer"]["param_groups"] == [7]
    back = order.inverse().policy(moved, 48, [12])
    assert torch.equal(back["actor"]["first"], first)
    assert torch.equal(back["actor"]["last"], weight)


def test_mistakes_are_reported_in_one_sentence():
    joints, order = names("go2", "envlab"), to_envlab("go2")

    def policy(columns: int, hidden: int = 16) -> object:
        return order.policy(Policy(48, 12, hidden).state_dict(), columns, [12])

    rows = torch.zeros(2, 48)
    assert_refused(
        {
            r"'FL_hip' is in the source's.* mean FL_hip_joint": (
                lambda: JointOrder(["FL_hip", *joints[1:]], joints)
            ),
            r"'FL_hip_joint' is in an order of joints 2 times": (
                lambda: JointOrder([*joints, joints[0]], joints)
            ),
            "have 13 columns for 12 joints": lambda: order.actions(torch.zeros(2, 13)),
            "from column 20 does not fit the 48 col": lambda: order.observations(rows, [12, 20]),
            "from column 40 does not fit the 48 columns": lambda: order.observations(rows, [40]),
            "size of its observations": lambda: policy(50),
            "hidden layer is as wide": lambda: policy(48, 48),
            "layer is as wide": lambda: policy(48, 12),
            "no order of joints called 'isaac_lab'": lambda: names("go2", "isaac_lab"),
        }
    )
