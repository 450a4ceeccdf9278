"""Changing velocities between resets, on both backends: a push disturbs nothing else."""

from __future__ import annotations

import pytest
import torch

from envlab.sim.simulation import Simulation
from tests.sim.models import (
    ALL,
    CARTPOLE,
    DT,
    NUM_ENVS,
    WALKER,
    assert_equal,
    fields,
    make,
    only,
    walk,
)

CFG = {"data_fields": ("sensordata", "xpos", "cvel", "qacc"), "decimation": 2}
LATE = slice(3, None)  # accelerometer, touch and contact: sensors of the acceleration stage


@pytest.fixture(scope="module", params=["mujoco", "mujoco_warp"])
def shared(request) -> Simulation:
    if request.param == "mujoco_warp":
        pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    return make(WALKER, request.param, **CFG)


@pytest.fixture
def walker(shared: Simulation) -> Simulation:
    shared.reset(ALL)
    walk(shared, 30)
    return shared


def test_the_velocity_stage_is_current_and_the_last_step_s_sensors_stay(walker):
    before = fields(walker)
    qvel = walker.data.qvel.clone()
    qvel[:, 0] += 2.0
    walker.set_velocity(only(1, 2), qvel)
    assert torch.equal(walker.data.qvel[[1, 2]], qvel[[1, 2]])
    imu = (walker.data.sensordata - before["sensordata"])[:, 0]
    spatial = (walker.data.cvel - before["cvel"])[:, 1, 3]
    for gained in (imu, spatial):
        assert gained.tolist() == pytest.approx([0.0, 2.0, 2.0, 0.0], abs=1e-5)
    assert torch.equal(walker.data.sensordata[:, LATE], before["sensordata"][:, LATE])
    for name in ("qpos", "xpos", "qacc"):
        assert torch.equal(walker.data[name], before[name]), name
    for name, tensor in before.items():
        assert torch.equal(walker.data[name][[0, 3]], tensor[[0, 3]]), name


def test_the_future_of_the_others_and_of_an_equal_velocity_is_unchanged(walker):
    state = walker.state()
    walk(walker, 20, seed=1)
    expected = fields(walker)
    walker.set_state(state)
    qvel = walker.data.qvel.clone()
    qvel[3, 1] += 1.0
    walker.set_velocity(only(1, 3), qvel)
    walk(walker, 20, seed=1)
    for name, tensor in expected.items():
        assert torch.equal(walker.data[name][:3], tensor[:3]), name
        if name != "nefc":
            assert not torch.equal(walker.data[name][3], tensor[3]), name


def test_an_empty_mask_changes_nothing(walker):
    before = fields(walker)
    walker.set_velocity(torch.zeros(NUM_ENVS, dtype=torch.bool), walker.data.qvel + 1.0)
    assert_equal(fields(walker), before)


def test_the_analytic_backend_changes_the_mask_s_velocities_alone():
    cartpole = make(CARTPOLE, "analytic")
    cartpole.set_velocity(only(1, 3), torch.full((NUM_ENVS, 2), 0.5))
    assert cartpole.data.qvel.tolist() == [[0.0, 0.0], [0.5, 0.5]] * 2
    assert (cartpole.data.qpos == 0.0).all()
    cartpole.step()
    assert cartpole.data.qpos[:, 0].tolist() == pytest.approx([0.0, 0.5 * DT] * 2, rel=0.05)


def test_each_change_of_the_state_is_counted(shared):
    """Terms share values derived from a state until the count changes."""
    for simulation in (shared, make(CARTPOLE, "analytic")):
        calls = {
            "step": (),
            "apply_params": (),
            "reset": (ALL,),
            "set_velocity": (ALL, simulation.data.qvel.clone()),
            "set_state": (simulation.state(),),
        }
        for name, arguments in calls.items():
            before = simulation.num_changes
            getattr(simulation, name)(*arguments)
            assert simulation.num_changes > before, name
