"""A binary action closes or opens its joints together, each to its own position."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from tests.envs.arms import LEFT, RIGHT, make_arm
from tests.envs.sliders import terms

CTRL_HINGE, CTRL_RIGHT, CTRL_LEFT = range(3)


def test_below_zero_closes_and_else_opens():
    gripper = mdp.BinaryJointPositionActionCfg(
        joint_names="slide_.*",
        open_command_expr={"slide_left": 0.04, "slide_right": 0.06},
        close_command_expr={"slide_.*": 0.01},
    )
    env = make_arm(3, actions=terms(gripper=gripper))
    assert env.single_action_space.shape == (1,)
    for _ in range(200):
        env.step(torch.tensor([[-0.1], [0.0], [7.0]]))
    assert env.sim.ctrl[:, CTRL_LEFT].tolist() == pytest.approx([0.01, 0.04, 0.04])
    assert env.sim.ctrl[:, CTRL_RIGHT].tolist() == pytest.approx([0.01, 0.06, 0.06])
    assert (env.sim.ctrl[:, CTRL_HINGE] == 0.0).all()
    fingers = env.sim.data.qpos[:, [LEFT, RIGHT]]
    assert fingers[1].tolist() == pytest.approx([0.04, 0.06], abs=1e-4)
    assert fingers[0].tolist() == pytest.approx([0.01, 0.01], abs=1e-4)


def fingers(cfg: type, actions: list[float], **fields) -> list[float]:
    """Return the control of the left finger in each environment after a step."""
    gripper = cfg(
        joint_names="slide_.*",
        open_command_expr={"slide_.*": 0.04},
        close_command_expr={"slide_.*": -0.02},
        **fields,
    )
    env = make_arm(len(actions), actions=terms(gripper=gripper))
    env.step(torch.tensor(actions).unsqueeze(1))
    return env.sim.ctrl[:, CTRL_LEFT].tolist()


def test_velocities_are_binary_too_and_bounded_by_joint():
    velocity = mdp.BinaryJointVelocityActionCfg
    assert fingers(velocity, [-0.1, 0.0, 1.0]) == pytest.approx([-0.02, 0.04, 0.04])
    bounds = {"slide_left": (-0.01, 0.03)}
    assert fingers(velocity, [-1.0, 1.0], clip=bounds) == pytest.approx([-0.01, 0.03])


def test_an_absolute_action_opens_beyond_a_threshold():
    absolute, actions = mdp.AbsBinaryJointPositionActionCfg, [0.4, 0.5, 0.6]
    assert fingers(absolute, actions) == pytest.approx([-0.02, -0.02, 0.04])
    below = fingers(absolute, actions, positive_threshold=False)
    assert below == pytest.approx([0.04, -0.02, -0.02])
    assert fingers(absolute, actions, threshold=0.3) == pytest.approx([0.04] * 3)
