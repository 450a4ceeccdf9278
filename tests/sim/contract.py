"""The promises of every backend: its tests call these functions with their own simulations."""

from __future__ import annotations

import pytest
import torch

from envlab.sim.simulation import Simulation
from tests.sim.models import ALL, DT, NUM_ENVS, assert_equal, fields, only, walk

GRAVITY = 9.81


def check_tensors(simulation: Simulation) -> None:
    """Check that tensors are float32 and keep their addresses, which graphs refer to."""
    tensors = [tensor for _, tensor in simulation.data.items() + simulation.params.items()]
    tensors += [simulation.ctrl, simulation.xfrc_applied]
    addresses = [tensor.data_ptr() for tensor in tensors]
    walk(simulation, 3)
    simulation.reset(only(0))
    simulation.apply_params()
    assert [tensor.data_ptr() for tensor in tensors] == addresses
    assert all(tensor.dtype == torch.float32 for tensor in tensors)


def check_reset(simulation: Simulation) -> None:
    """Check that a reset leads to the model's pose at rest, clears inputs, and minds its mask."""
    simulation.apply_wrench([1], torch.ones(NUM_ENVS, 1, 3), torch.ones(NUM_ENVS, 1, 3))
    walk(simulation, 5)
    before, ctrl = fields(simulation), simulation.ctrl.clone()
    simulation.reset(only(2))
    others = [0, 1, 3]
    for name, values in fields(simulation).items():
        assert torch.equal(values[others], before[name][others]), name
    assert simulation.data.qpos[2].tolist() == pytest.approx(simulation.model.qpos0.tolist())
    inputs = (simulation.ctrl, simulation.xfrc_applied)
    for values in (simulation.data.qvel, simulation.data.time, *inputs):
        assert not values[2].any()
    assert torch.equal(simulation.ctrl[others], ctrl[others])
    assert (simulation.xfrc_applied[others, 1] == 1.0).all()


def check_resume(simulation: Simulation, other: Simulation) -> None:
    """Check that a state has the same future to the bit, here and in another simulation."""
    simulation.params.body_mass.mul_(1.2)
    simulation.apply_params()
    simulation.apply_wrench([1], torch.ones(NUM_ENVS, 1, 3), torch.zeros(NUM_ENVS, 1, 3))
    walk(simulation, 15)
    state, saved = simulation.state(), fields(simulation)
    walk(simulation, 15, seed=1)
    expected = fields(simulation)
    for resumed in (simulation, other):
        resumed.params.body_mass.mul_(0.5)
        resumed.apply_params()
        resumed.reset(ALL)
        resumed.set_state(state)
        assert_equal(fields(resumed), saved)
        walk(resumed, 15, seed=1)
        assert_equal(fields(resumed), expected)


def check_recovery(simulation: Simulation, *values: float) -> None:
    """Check that a state of such values is reported, and entirely forgotten after a reset."""
    simulation.reset(ALL)
    walk(simulation, 10)
    expected = fields(simulation)
    assert not simulation.bad().any()
    for value in values:
        simulation.reset(only(1), torch.full((NUM_ENVS, simulation.model.nq), value))
        for _ in range(2):
            simulation.step()
            assert simulation.bad().tolist() == [False, True, False, False], value
        simulation.reset(ALL)
        assert not simulation.bad().any()
        walk(simulation, 10)
        assert_equal(fields(simulation), expected)
        assert not simulation.bad().any()
        assert not simulation.overflow().any()


def check_force_and_mass(simulation: Simulation) -> None:
    """Check what a force does to a ball of 1 kg, and of 2 kg in two environments.

    Semi-implicit Euler: v = (F / m - g) dt.
    """
    simulation.params.body_mass[only(1, 2), 1] = 2.0
    simulation.apply_params(only(1, 2))
    force = torch.tensor([0.0, 0.0, 14.81]).expand(NUM_ENVS, 1, 3)
    simulation.apply_wrench([1], force, torch.zeros(NUM_ENVS, 1, 3))
    simulation.step()
    light, heavy = (14.81 - GRAVITY) * DT, (14.81 / 2 - GRAVITY) * DT
    assert simulation.data.qvel[:, 0].tolist() == pytest.approx([light, heavy, heavy, light])
    assert simulation.model_of(1).body_subtreemass[1] == pytest.approx(2.0)
    assert simulation.model_of(1).dof_invweight0[0] == pytest.approx(0.5)
    assert simulation.model_of(0).dof_invweight0[0] == pytest.approx(1.0)
    assert simulation.model.body_mass[1] == pytest.approx(1.0)
    simulation.reset(only(0))
    assert not simulation.xfrc_applied[0].any()
    assert simulation.xfrc_applied[1, 1, 2] == pytest.approx(14.81)
