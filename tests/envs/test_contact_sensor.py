"""Contact forces and how long bodies have been in the air, by hand."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.contact_sensor import ContactSensor, ContactSensorCfg
from envlab.envs.terms import reward
from tests.envs import sliders
from tests.envs.hopper import DT, bodies, make_env, place, step
from tests.envs.refusals import assert_refused
from tests.envs.sliders import terms


def sensor_of(env) -> ContactSensor:
    return env.sensor_manager.get_term("contact_forces")


def test_times_of_a_fall_and_a_lift():
    env = make_env()
    sensor = sensor_of(env)
    place(env, height=1.0)
    step(env, 5)
    assert sensor.current_air_time[0].tolist() == pytest.approx([5 * DT] * 2)
    assert sensor.current_contact_time[0].tolist() == [0.0, 0.0]
    place(env, height=0.0999)  # put down, without the sensor's knowing
    step(env)
    assert sensor.first_contact.tolist() == [[True, False]]
    assert sensor.last_air_time[0].tolist() == pytest.approx([6 * DT, 0.0])
    assert sensor.current_air_time[0].tolist() == pytest.approx([0.0, 6 * DT])
    assert sensor.current_contact_time[0, 0].item() == pytest.approx(DT)
    step(env, 2)
    assert sensor.first_contact.tolist() == [[False, False]]
    assert sensor.current_contact_time[0, 0].item() == pytest.approx(3 * DT)
    place(env, height=1.0)
    step(env)
    assert sensor.last_contact_time[0, 0].item() == pytest.approx(4 * DT)
    assert sensor.current_air_time[0].tolist() == pytest.approx([DT, 9 * DT])
    assert sensor.last_air_time[0, 0].item() == pytest.approx(6 * DT)


def test_a_touch_right_after_a_reset_ends_no_flight():
    env = make_env()
    place(env, height=0.0999)
    step(env)
    sensor = sensor_of(env)
    assert sensor.first_contact.tolist() == [[True, False]]
    assert sensor.last_air_time.tolist() == [[0.0, 0.0]]


def test_a_reset_forgets_the_environments_of_the_mask_alone():
    env = make_env(2)
    place(env, height=2.0)
    step(env, 4)
    env.reset(options={"reset_mask": [True, False]})
    sensor = sensor_of(env)
    assert sensor.current_air_time[0].tolist() == [0.0, 0.0]
    assert sensor.current_air_time[1].tolist() == pytest.approx([4 * DT] * 2)
    assert sensor.force_norms[0].tolist() == [0.0, 0.0]


def test_a_resume_lets_a_sensor_begin_that_the_run_did_not_have():
    env, other = make_env(2), make_env(2, sensors=terms(new=ContactSensorCfg()))
    place(env, height=2.0)
    step(env, 4)
    other.set_state(env.state())
    step(other, 3)
    new = other.sensor_manager.get_term("new")
    assert new.current_air_time[0, 0].item() == pytest.approx(3 * DT)


def test_bodies_and_models_without_contact_sensors_are_refused():
    term = reward(mdp.undesired_contacts, 1.0, sensor_cfg=bodies("blok"), threshold=1.0)
    sensors, sim = make_env().cfg.sensors, {"data_fields": ("sensordata",)}
    assert_refused(
        {
            "'blok'; those that have one are block": lambda: make_env(rewards=terms(touch=term)),
            "add <contact body2=": lambda: sliders.make_env(sim=sim, sensors=sensors),
            "no MuJoCo sensor for it": lambda: sliders.make_env(sensors=sensors),
        }
    )


def test_physics_steps_count_within_a_control_step_as_they_do_alone():
    """A falling block that bounces: four physics steps at once against one at a time."""
    at_once, alone = make_env(2, decimation=4), make_env(2)
    for env in (at_once, alone):
        place(env, height=0.25, lin_vel=(0.0, 0.0, -3.0))
    touched = set()
    for _ in range(12):
        norms = []
        step(at_once)
        for _ in range(4):
            step(alone)
            norms.append(sensor_of(alone).net_forces_w.norm(dim=2))
        left, right = sensor_of(at_once), sensor_of(alone)
        for name in ("net_forces_w", "force_norms", "in_contact"):
            assert torch.equal(getattr(left, name), getattr(right, name)), name
        for name in (
            *("current_air_time", "last_air_time", "current_contact_time", "last_contact_time"),
        ):
            assert torch.allclose(getattr(left, name), getattr(right, name), atol=1e-6), name
        assert torch.equal(left.force_norms, torch.stack(norms[1:]).amax(dim=0))
        contact = left.current_contact_time
        assert torch.equal(left.first_contact, (contact > 0.0) & (contact < 4.5 * DT))
        touched.add(tuple((norm[0, 0] > 1.0).item() for norm in norms))
    # It touches within a control step, and in the last of its physics steps has left again.
    assert any(any(steps[1:3]) and not steps[3] for steps in touched)
