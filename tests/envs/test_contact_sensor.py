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
    assert sensor.compute_first_contact(3 * DT).tolist() == [[True, False]]
    assert sensor.compute_first_contact(2 * DT).tolist() == [[False, False]]
    place(env, height=1.0)
    step(env)
    assert sensor.first_air.tolist() == [[True, False]]
    assert sensor.compute_first_air(9 * DT).tolist() == [[True, True]]
    assert sensor.compute_first_air(8 * DT).tolist() == [[True, False]]
    assert sensor.last_contact_time[0, 0].item() == pytest.approx(4 * DT)
    assert sensor.current_air_time[0].tolist() == pytest.approx([DT, 9 * DT])
    assert sensor.last_air_time[0, 0].item() == pytest.approx(6 * DT)


def test_times_follow_each_physics_step_however_many_there_are():
    generator = torch.Generator().manual_seed(0)
    for decimation in (1, 4, 10):
        env = make_env(64, decimation=decimation)
        sensor, substeps = sensor_of(env), env.sim.substeps.sensordata
        now, last = torch.zeros(2, 64, 2), torch.zeros(2, 64, 2)  # in the air, and on the ground
        for _ in range(20):
            touches = torch.rand(64, decimation, 1, generator=generator) < 0.4
            substeps.copy_(2.0 * touches)
            sensor.update(decimation * DT)
            for touch in touches.unbind(1):
                ends = torch.stack((touch, ~touch)).expand(2, 64, 2)
                last = torch.where(ends & (now > 0.0), now + DT, last)
                now = torch.where(ends, 0.0, now + DT)
            mine = sensor.current_air_time, sensor.current_contact_time
            assert torch.allclose(torch.stack(mine), now, atol=1e-5)
            mine = sensor.last_air_time, sensor.last_contact_time
            assert torch.allclose(torch.stack(mine), last, atol=1e-5)


def test_a_touch_right_after_a_reset_ends_no_flight():
    env = make_env()
    place(env, height=0.0999)
    step(env)
    sensor = sensor_of(env)
    assert sensor.first_contact.tolist() == [[True, False]]
    assert sensor.last_air_time.tolist() == [[0.0, 0.0]]


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


def test_forces_of_the_history_count_from_step_to_step_until_a_reset():
    env = make_env(2, decimation=1)
    sensor, substeps = sensor_of(env), env.sim.substeps.sensordata
    sensor.reset(torch.ones(2, dtype=torch.bool))
    assert not sensor.in_contact.any()
    for force, touches, begins in ((9.0, True, True), (0.0, True, False), (0.0, True, False)):
        substeps.fill_(force)
        sensor.update(DT)
        assert (sensor.in_contact == touches).all()
        assert (sensor.first_contact == begins).all()
    substeps.zero_()
    sensor.update(DT)  # the fourth step since the force
    assert not sensor.in_contact.any()
    substeps.fill_(9.0)
    sensor.update(DT)
    assert sensor.in_contact.all()
    assert sensor.first_contact.all()
    sensor.reset(torch.tensor([True, False]))
    assert sensor.in_contact.tolist() == [[False] * 2, [True] * 2]
    assert sensor.first_contact.tolist() == [[False] * 2, [True] * 2]
