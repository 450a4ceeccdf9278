"""The action manager cuts actions into terms, corrupts and bounds them, and remembers two."""

from __future__ import annotations

import torch

from envlab.envs import mdp
from envlab.envs.terms import observation
from tests.envs.sliders import CTRL_DRIVE, CTRL_PUSH, CTRL_SERVO, group, make_env, push, terms


def test_terms_take_their_slices_in_field_order():
    env = make_env(
        2,
        actions=terms(
            speed=mdp.JointVelocityActionCfg(joint_names="drive"),
            rest=mdp.JointEffortActionCfg(joint_names=["servo", "push"], scale=10.0),
        ),
    )
    assert env.action_manager.active_terms == ["speed", "rest"]
    assert env.action_manager.total_action_dim == 3
    env.step(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert env.sim.ctrl[:, CTRL_DRIVE].tolist() == [1.0, 4.0]
    assert env.sim.ctrl[:, CTRL_PUSH].tolist() == [20.0, 50.0]
    assert env.sim.ctrl[:, CTRL_SERVO].tolist() == [30.0, 60.0]


def test_two_actions_are_remembered_and_forgotten_at_the_reset():
    observations = terms(policy=group(last=observation(mdp.last_action)))
    env = make_env(2, observations=observations)
    obs, *_ = push(env, 1.0, 2.0)
    assert obs["policy"].tolist() == [[1.0], [2.0]]
    push(env, 3.0, 4.0)
    assert env.action_manager.action.tolist() == [[3.0], [4.0]]
    assert env.action_manager.prev_action.tolist() == [[1.0], [2.0]]
    env.episode_length_buf[1] = 9
    obs, *_, info = push(env, 5.0, 6.0)
    assert obs["policy"].tolist() == [[5.0], [0.0]]
    assert info["final_obs"]["policy"].tolist() == [[5.0], [6.0]]
    assert env.action_manager.prev_action.tolist() == [[3.0], [0.0]]
