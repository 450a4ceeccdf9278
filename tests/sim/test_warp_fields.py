"""Which fields the GPU backend shows, and which it refuses with one sentence."""

from __future__ import annotations

import logging

import pytest
import torch

pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")

import warp as wp

from envlab.errors import ConfigurationError, SimulationError
from envlab.sim.warp_fields import check_static_geoms
from tests.sim.models import CARTPOLE, NUM_ENVS, STATIC, TARGETS, compile_model, make


def test_model_that_warp_cannot_simulate_is_one_sentence():
    with pytest.raises(
        SimulationError, match=r"mjSOL_PGS is unsupported.*env\.sim\.backend=mujoco"
    ):
        make(CARTPOLE.replace("<option ", '<option solver="PGS" '), "mujoco_warp")


def test_fields_that_warp_lacks_are_refused():
    with pytest.raises(ConfigurationError, match="'ncon'"):
        make(CARTPOLE, "mujoco_warp", data_fields=("ncon",))
    with pytest.raises(ConfigurationError, match="Did you mean body_mass"):
        make(CARTPOLE, "mujoco_warp", model_fields=("body_mas",))


@pytest.mark.parametrize("field", ["geom_pos", "geom_quat", "body_pos", "body_quat"])
def test_randomising_only_geoms_fixed_to_the_world_is_refused(field):
    with pytest.raises(ConfigurationError, match=rf"{field}.*2 of 2.*env\.sim\.backend=mujoco"):
        make(STATIC.format(joint=""), "mujoco_warp", model_fields=(field,))


@pytest.mark.parametrize("field", ["geom_pos", "body_pos"])
def test_randomising_some_geoms_fixed_to_the_world_is_a_warning(field, caplog):
    xml = STATIC.format(joint='<joint type="slide"/>')
    with caplog.at_level(logging.WARNING, "envlab.sim.warp_fields"):
        simulation = make(xml, "mujoco_warp", data_fields=("geom_xpos",), model_fields=(field,))
    assert f"{field!r}" in caplog.text
    assert "1 of 2" in caplog.text
    before = simulation.data.geom_xpos.clone()
    simulation.params[field].add_(1.0)
    simulation.apply_params()
    moved = (simulation.data.geom_xpos != before).any(dim=2)
    assert moved.tolist() == [[False, True]] * NUM_ENVS


@pytest.mark.parametrize(
    ("xml", "fields"),
    [
        (CARTPOLE, ("geom_pos", "body_pos")),  # Nothing is fixed.
        (TARGETS, ("geom_size", "body_pos")),  # Fixed geoms, but no fixed body.
        (STATIC.replace('<body name="table"', '<body name="table" mocap="true"'), ("geom_pos",)),
    ],
)
def test_randomising_moving_geoms_is_allowed_in_silence(xml, fields, caplog):
    check_static_geoms(compile_model(xml.format(joint="")), fields)
    assert not caplog.records


def test_integer_parameters_are_float32_and_take_effect():
    simulation = make(TARGETS, "mujoco_warp", model_fields=("geom_matid",))
    assert simulation.params.geom_matid.dtype == torch.float32
    simulation.params.geom_matid[1] = 2.0
    simulation.apply_params()
    in_warp = wp.to_torch(simulation._m.geom_matid)
    assert in_warp.dtype == torch.int32
    assert in_warp[:, 0].tolist() == [-1, 2, -1, -1]
