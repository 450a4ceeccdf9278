"""Terms over contacts, by hand: forces and times are given, not simulated."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.terms import reward
from envlab.errors import ConfigurationError
from tests.envs.hopper import ROLLED, bodies, make_env, place, step
from tests.envs.sliders import terms

MOVING, STANDING = [0.3, -0.4, 0.0], [0.05, 0.05, 1.0]


def commanded(*commands: list[float]) -> SimpleNamespace:
    """Return an environment that has nothing but commands."""
    values = torch.tensor(commands)
    return SimpleNamespace(command_manager=SimpleNamespace(get_command=lambda name: values))


def test_forces_above_the_threshold_count():
    touching = SimpleNamespace(force_norms=torch.tensor([[0.0, 1.0], [1.1, 0.0], [5.0, 3.0]]))
    env = commanded(MOVING)
    assert mdp.illegal_contact(env, 1.0, touching).tolist() == [False, True, True]
    assert mdp.undesired_contacts(env, 1.0, touching).tolist() == [0.0, 1.0, 2.0]
    assert mdp.desired_contacts(env, touching).tolist() == [1.0, 0.0, 0.0]
    assert mdp.contact_forces(env, 1.0, touching).tolist() == pytest.approx([0.0, 0.1, 6.0])


def test_feet_air_time_rewards_long_steps_that_end_now_unless_commanded_to_stand():
    feet = SimpleNamespace(
        last_air_time=torch.tensor([[0.7, 0.2], [0.7, 0.2], [0.7, 0.2]]),
        first_contact=torch.tensor([[True, True], [True, False], [True, True]]),
    )
    env = commanded(MOVING, MOVING, STANDING)
    reward = mdp.feet_air_time(env, "base_velocity", feet, 0.5)
    assert reward.tolist() == pytest.approx([0.2 - 0.3, 0.2, 0.0])


def test_the_biped_is_paid_for_one_foot_at_a_time_up_to_the_threshold():
    feet = SimpleNamespace(
        current_contact_time=torch.tensor([[0.3, 0.0], [0.9, 0.0], [0.3, 0.2], [0.0, 0.0], [1, 0]]),
        current_air_time=torch.tensor([[0.0, 0.5], [0.0, 0.8], [0.0, 0.0], [0.3, 0.2], [0, 1]]),
    )
    env = commanded(MOVING, MOVING, MOVING, MOVING, STANDING)
    reward = mdp.feet_air_time_positive_biped(env, "base_velocity", 0.6, feet)
    assert reward.tolist() == pytest.approx([0.3, 0.6, 0.0, 0.0, 0.0])


def sliding(names: list[str]):
    """Return an environment whose block is the foot."""
    params = {"sensor_cfg": bodies("block"), "asset_cfg": SceneEntityCfg(body_names=names)}
    return make_env(
        sim={"data_fields": ("sensordata", "cvel", "xipos", "subtree_com")},
        rewards=terms(slide=reward(mdp.feet_slide, 1.0, **params)),
    )


def test_feet_slide_is_the_speed_of_touching_feet():
    env = sliding(["block"])
    place(env, height=0.0995, lin_vel=(0.3, 0.4, 0.0))
    env.sensor_manager.update(env.step_dt)
    assert env._get_rewards().item() == pytest.approx(0.5 * env.step_dt, rel=1e-4)
    place(env, height=1.0, lin_vel=(0.3, 0.4, 0.0))
    for _ in range(3):  # as many physics steps as the sensor remembers
        assert env._get_rewards().item() > 0.0
        env.sensor_manager.update(env.step_dt)
    assert env._get_rewards().item() == 0.0


def test_the_speed_of_a_turning_body_is_that_of_its_own_centre_of_mass():
    env = sliding(["block"])
    # On its side and turning about the vertical, 0.1 m off the axis of the joint's own frame.
    place(env, height=0.1995, quat=ROLLED, ang_vel=(0.0, 3.0, 0.0))
    env.sensor_manager.update(env.step_dt)
    assert env._get_rewards().item() == pytest.approx(0.0, abs=1e-6)


def test_feet_slide_refuses_two_lists_of_feet():
    with pytest.raises(ConfigurationError, match="block in sensor_cfg, but arm in asset_cfg"):
        step(sliding(["arm"]))


def test_a_robot_that_hits_itself_pays_for_each_physics_step():
    # Two sensors of one force each, in three physics steps of two environments.
    forces = torch.zeros(2, 3, 6)
    forces[0, 0, 0], forces[0, 1, 4], forces[0, 1, 0] = 11.0, -20.0, 11.0
    forces[1, 2] = torch.tensor([6.0, 6.0, 6.0, 0.0, 0.0, 9.9])  # 10.4 N, and 9.9 N
    env = SimpleNamespace(sim=SimpleNamespace(substeps=SimpleNamespace(sensordata=forces)))
    both = SimpleNamespace(sensor_ids=slice(0, 6))
    for threshold, steps in ((10.0, [2.0, 1.0]), (10.5, [2.0, 0.0])):
        assert mdp.self_collision_cost(env, threshold, both).tolist() == steps
        assert mdp.illegal_collision(env, threshold, both).tolist() == [n > 0 for n in steps]
