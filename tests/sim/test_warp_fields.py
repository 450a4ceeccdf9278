"""Which fields the GPU backend shows, and which it refuses with one sentence."""

from __future__ import annotations

import logging

import pytest
import torch

from tests.envs.refusals import assert_refused

pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")

import warp as wp

from envlab.errors import SimulationError
from envlab.sim.warp_fields import check_static_geoms
from tests.sim.models import CARTPOLE, NUM_ENVS, STATIC, TARGETS, compile_model, make


def test_model_that_warp_cannot_simulate_is_one_sentence():
    model = CARTPOLE.replace("<option ", '<option solver="PGS" ')
    words = r"mjSOL_PGS is unsupported.*env\.sim\.backend=mujoco"
    with pytest.raises(SimulationError, match=words):
        make(model, "mujoco_warp")


def test_fields_that_warp_lacks_or_cannot_draw_are_refused():
    def made(xml: str = CARTPOLE, **fields: object) -> object:
        return make(xml, "mujoco_warp", **fields)

    fixed = STATIC.format(joint="")
    assert_refused(
        {
            "'ncon'": lambda: made(data_fields=("ncon",)),
            "Did you mean body_mass": lambda: made(model_fields=("body_mas",)),
        }
    )
    for field in ("geom_pos", "geom_quat", "body_pos", "body_quat"):
        words = rf"{field}.*2 of 2.*env\.sim\.backend=mujoco"
        assert_refused({words: lambda field=field: made(fixed, model_fields=(field,))})


def test_randomising_some_geoms_fixed_to_the_world_is_a_warning(caplog):
    xml, field = STATIC.format(joint='<joint type="slide"/>'), "body_pos"
    with caplog.at_level(logging.WARNING, "envlab.sim.warp_fields"):
        simulation = make(xml, "mujoco_warp", data_fields=("geom_xpos",), model_fields=(field,))
    assert f"{field!r}" in caplog.text
    assert "1 of 2" in caplog.text
    before = simulation.data.geom_xpos.clone()
    simulation.params[field].add_(1.0)
    simulation.apply_params()
    moved = (simulation.data.geom_xpos != before).any(dim=2)
    assert moved.tolist() == [[False, True]] * NUM_ENVS
    caplog.clear()
    moving = STATIC.replace('<body name="table"', '<body name="table" mocap="true"')
    for model, fields in (
        (CARTPOLE, ("geom_pos", "body_pos")),  # Nothing is fixed.
        (TARGETS, ("geom_size", "body_pos")),  # Fixed geoms, but no fixed body.
        (moving.format(joint=""), ("geom_pos",)),
    ):
        check_static_geoms(compile_model(model), fields)
    assert not caplog.records


def test_integer_parameters_are_float32_and_take_effect():
    simulation = make(TARGETS, "mujoco_warp", model_fields=("geom_matid",))
    assert simulation.params.geom_matid.dtype == torch.float32
    simulation.params.geom_matid[1] = 2.0
    simulation.apply_params()
    in_warp = wp.to_torch(simulation._m.geom_matid)  # private: no result shows a material
    assert in_warp.dtype == torch.int32
    assert in_warp[:, 0].tolist() == [-1, 2, -1, -1]
