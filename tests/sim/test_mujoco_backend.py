"""Promises of the CPU backend, on scenes whose numbers follow by hand."""

from __future__ import annotations

import logging
import math
import warnings

import mujoco
import pytest
import torch

from envlab.sim import mujoco_backend
from tests.envs.refusals import assert_refused
from tests.sim import contract
from tests.sim.models import (
    ALL,
    CARTPOLE,
    NUM_ENVS,
    PILE,
    TARGETS,
    WALKER,
    assert_equal,
    fields,
    make,
    only,
    walk,
)

SPARSE = "<mujoco><option jacobian='sparse'{}/><worldbody><body><freejoint/>" + (
    "<geom size='1'/></body></worldbody></mujoco>"
)
BALL = 1  # body index in TARGETS


def test_derived_fields_belong_to_their_own_environment():
    simulation = make(TARGETS, data_fields=("xpos",), decimation=3)
    heights = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    simulation.reset(ALL, qpos=heights)
    assert torch.allclose(simulation.data.xpos[:, BALL, 2:], 1.0 + heights)
    simulation.step()
    assert torch.allclose(simulation.data.xpos[:, BALL, 2:], 1.0 + simulation.data.qpos)
    assert (simulation.data.qpos < heights).all()


def test_accelerometer_is_fresh_after_a_masked_reset_and_untouched_elsewhere():
    simulation = make(CARTPOLE, data_fields=("sensordata", "xpos", "qacc"))
    walk(simulation, 10)
    before = fields(simulation)
    simulation.reset(only(1, 3))
    # Upright and at rest the tip feels only gravity's reaction.
    expected = torch.tensor([0.0, 0.0, contract.GRAVITY])
    assert torch.allclose(simulation.data.sensordata[[1, 3], 4:], expected, atol=1e-5)
    for name, tensor in before.items():
        assert torch.equal(simulation.data[name][[0, 2]], tensor[[0, 2]]), name


def test_acceleration_sensors_are_the_same_with_and_without_a_refresh():
    """A step skips the refresh if only such sensors are read, and adds it for poses."""
    model = CARTPOLE.replace('<framepos objtype="site" objname="tip"/>', "")
    model = model.replace('<jointvel joint="hinge"/>', "")
    bare, refreshed = (
        make(model, data_fields=("sensordata", *more), decimation=2) for more in ((), ("xpos",))
    )
    for simulation in (bare, refreshed):
        walk(simulation, 10)
    assert bare.data.sensordata.abs().max() > contract.GRAVITY
    assert bare.data.sensordata.unique(dim=0).shape[0] == NUM_ENVS
    assert torch.equal(bare.data.sensordata, refreshed.data.sensordata)
    assert torch.equal(bare.data.qpos, refreshed.data.qpos)


@pytest.mark.parametrize(
    "fields", [("sensordata", "qacc", "actuator_force"), ("sensordata", "qacc", "xpos")]
)
def test_kept_physics_steps_are_those_that_single_steps_show(fields):
    """Also if fields are refreshed at the end of a control step, and others are not kept."""
    kept = make(WALKER, data_fields=fields, substep_fields=("sensordata",), decimation=3)
    plain = make(WALKER, data_fields=fields, decimation=3)
    single = make(WALKER, data_fields=("sensordata",))
    late = torch.from_numpy(kept.model.sensor_needstage.repeat(kept.model.sensor_dim) == 3)
    for step in range(20):
        for simulation in (kept, plain):
            walk(simulation, 1, seed=step)
        single.ctrl.copy_(kept.ctrl)
        for substep in range(3):
            single.step()
            shown = kept.substeps.sensordata[:, substep]
            assert torch.equal(shown[:, late], single.data.sensordata[:, late])
        assert_equal(dict(kept.data.items()), dict(plain.data.items()))
    assert kept.substeps.sensordata[:, :, late].abs().max() > 1.0


def test_unknown_and_undeclared_fields_are_refused_with_advice():
    def cartpole(**cfg: object) -> object:
        return make(CARTPOLE, **cfg)

    assert_refused(
        {
            "'contact'.* contact sensor": lambda: cartpole(data_fields=("contact",)),
            "'efc_force'.* contact sensor": lambda: cartpole(data_fields=("efc_force",)),
            "netforce": lambda: cartpole(data_fields=("cfrc_ext",)),
            "Did you mean xpos": lambda: cartpole(data_fields=("xposs",)),
            "Did you mean body_mass": lambda: cartpole(model_fields=("body_mas",)),
            "auto, mujoco, mujoco_warp": lambda: cartpole(backend="bullet"),
            "'xpos' must be kept for every physics step": (
                lambda: cartpole(substep_fields=("xpos",))
            ),
            r"Add 'xpos' to env\.sim\.substep_fields": (
                lambda: cartpole(data_fields=("xpos",)).substeps.xpos
            ),
        }
    )
    with pytest.raises(AttributeError, match=r"Add 'xpos' to env\.sim\.data_fields"):
        _ = make(CARTPOLE).data.xpos


def test_tensors_are_float32_at_fixed_addresses():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contract.check_tensors(
            make(WALKER, data_fields=("xpos", "sensordata"), model_fields=("body_mass",))
        )


def test_a_reset_leads_to_the_models_pose_and_minds_its_mask():
    contract.check_reset(make(CARTPOLE, data_fields=("time",)))


def test_a_broken_state_is_reported_and_a_reset_recovers():
    contract.check_recovery(make(CARTPOLE, data_fields=("sensordata",)), math.nan, math.inf)


def test_a_simulation_that_becomes_unstable_again_is_reported_again():
    """MuJoCo counts its own resets from one in each failure, so that the count does not grow."""
    simulation, force = make(CARTPOLE), torch.zeros(4, 1, 3)
    for _ in range(3):
        force[1, 0, 0] = 1e13
        simulation.apply_wrench([1], force, torch.zeros(4, 1, 3))
        simulation.step()
        assert simulation.bad().tolist() == [False, True, False, False]
        simulation.reset(only(1))
        simulation.step()
        assert not simulation.bad().any()


def test_full_arena_is_reported_once_with_the_setting_to_raise():
    simulation = make(PILE)
    simulation.step()
    assert simulation.overflow().all()
    assert not simulation.overflow().any()
    assert '<size memory="' in simulation.overflow_advice()
    assert not make(TARGETS).overflow().any()


def test_state_resumes_bit_for_bit():
    cfg = {"data_fields": ("sensordata", "xpos"), "model_fields": ("body_mass",)}
    contract.check_resume(*(make(WALKER, decimation=2, **cfg) for _ in range(2)))


def test_parameters_that_were_never_written_resume_as_the_model_has_them():
    """In float64: 0.1 kg is another number in float32."""
    simulation = make(CARTPOLE, model_fields=("body_mass",))
    simulation.params.body_mass[only(1)] *= 1.5
    simulation.apply_params(only(1))
    walk(simulation, 5)
    resumed = make(CARTPOLE, model_fields=("body_mass",))
    resumed.set_state(simulation.state())
    for one in (simulation, resumed):
        walk(one, 30, seed=1)
    assert torch.equal(resumed.state()["rows"], simulation.state()["rows"])


def test_a_force_accelerates_by_force_over_mass():
    contract.check_force_and_mass(make(TARGETS, model_fields=("body_mass",)))


def test_ray_distances_are_those_of_the_scene():
    simulation = make(TARGETS)
    origins = torch.tensor([[0.0, 0, 3], [1, 0, 3], [1, 0, 1], [1, 0, 1], [1, 0, 3]])
    directions = torch.tensor([[0.0, 0, -1], [0, 0, -1], [1, 0, 0], [2, 0, 0], [0, 0, 1]])
    rays = [tensor.expand(NUM_ENVS, -1, -1) for tensor in (origins, directions)]
    distance, geom = simulation.rays(*rays)
    # Ball top at 1.25, floor at 0, wall face at 1.9 (then in half units), sky.
    assert distance[0].tolist() == pytest.approx([1.75, 3.0, 0.9, 0.45, -1.0])
    assert geom[0].tolist() == [2, 0, 1, 1, -1]
    assert geom.dtype == torch.int64
    assert distance.dtype == torch.float32
    assert torch.equal(distance[0], distance[3])
    distance, _ = simulation.rays(*rays, geom_groups=[0], exclude_body=BALL)
    assert distance[0].tolist() == pytest.approx([3.0, 3.0, -1.0, -1.0, -1.0])


def test_warnings_go_to_the_log_and_no_file_is_written(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    # private: of many warnings only the first are logged, and other tests have caused some.
    monkeypatch.setattr(mujoco_backend, "_warning_count", 0)
    simulation = make(CARTPOLE)
    simulation.reset(only(0), qpos=torch.full((NUM_ENVS, 2), math.nan))
    with caplog.at_level(logging.WARNING):
        simulation.step()
    assert "MuJoCo" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_thread_count_does_not_change_a_bit():
    results = []
    for num_threads in (1, 2):
        simulation = make(WALKER, num_threads=num_threads, data_fields=("sensordata",))
        walk(simulation, 40)
        simulation.reset(only(1))
        walk(simulation, 10, seed=1)
        results.append(fields(simulation))
    assert_equal(*results)


def test_the_faulty_sparse_solver_is_reported_once(caplog, monkeypatch):
    """google-deepmind/mujoco#3767: MuJoCo 4.0.0 alone, Newton's solver, sparse Jacobians."""
    dense = mujoco.MjModel.from_xml_string(SPARSE.format("").replace("sparse", "dense"))
    others = [(version, "", False) for version in ("3.17.0", "4.0.1", "4.1.0")]
    for version, options, warns in (
        *(("4.0.0", "", True), ("4.0.0", " solver='CG'", False), *others),
    ):
        caplog.clear()
        mujoco_backend.warn_of_sparse_newton.cache_clear()
        model = mujoco.MjModel.from_xml_string(SPARSE.format(options))
        for each in (dense, model, model):
            mujoco_backend.check_sparse_newton(each, version)
        found = ["mujoco#3767" in message for message in caplog.messages]
        assert found == [True] * warns, version


def test_a_simulation_looks_for_the_faulty_sparse_solver(monkeypatch):
    looked_at = []
    monkeypatch.setattr(mujoco_backend, "check_sparse_newton", looked_at.append)
    simulation = make(TARGETS)
    assert looked_at == [simulation.model]
