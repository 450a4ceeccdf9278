"""The GPU backend against the CPU backend, on Warp's CPU device with captured graphs.

Tolerances: Warp computes in float32, MuJoCo in float64. Over such trajectories the largest
differences measured were 1e-6 (cart-pole) and 2e-5 m, 2e-4 m/s (walker, whose contacts amplify
rounding); its contact forces differed by 8e-3 N. The bounds leave a factor of about five.
"""

from __future__ import annotations

import ast
import gc
import inspect
import math
import re
import weakref
from types import SimpleNamespace

import mujoco
import pytest
import torch

pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")

from mujoco_warp import DeterminismType
from mujoco_warp._src import constraint

from envlab.errors import ConfigurationError
from envlab.sim.simulation import Simulation, SimulationCfg
from envlab.sim.warp_backend import WarpSimulation
from envlab.sim.warp_fields import has_ordered_rows, put
from envlab.tools import warm
from tests.sim import contract
from tests.sim.models import (
    ALL,
    CARTPOLE,
    NUM_ENVS,
    TARGETS,
    WALKER,
    assert_equal,
    fields,
    make,
    only,
    walk,
)

BOTH = {"model_fields": ("body_mass",), "decimation": 2}
CARTPOLE_CFG = {"data_fields": ("sensordata", "xpos", "qacc")} | BOTH
WALKER_CFG = {
    "data_fields": ("sensordata", "xpos", "xmat", "cvel", "subtree_com", "actuator_force", "nefc"),
    "substep_fields": ("sensordata",),
} | BOTH
TOLERANCES = {
    "cartpole": {"qpos": 1e-5, "qvel": 2e-5, "sensordata": 2e-4, "qacc": 2e-4},
    "walker": {"qpos": 1e-4, "qvel": 1e-3, "cvel": 1e-3, "sensordata": 5e-2, "nefc": 0.0},
}
DEFAULT_TOLERANCE = 1e-4
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def test_determinism_is_asked_of_mujoco_warp_where_it_is_wanted():
    model = mujoco.MjModel.from_xml_string(CARTPOLE)
    asked = [put(SimulationCfg(deterministic=wanted), model, 1)[0] for wanted in (True, False)]
    assert [one.opt.deterministic for one in asked] == [DeterminismType.ALL, DeterminismType.NONE]


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (CARTPOLE, True),
        (CARTPOLE.replace('axis="1 0 0"', 'axis="1 0 0" range="-1 1"'), True),
        (CARTPOLE.replace("axis=", 'range="-1 1" axis='), False),  # two limits
        (WALKER, False),
        (TARGETS, False),
    ],
)
def test_runs_are_said_to_repeat_on_a_gpu_where_no_two_constraints_can_change_places(xml, expected):
    model = mujoco.MjModel.from_xml_string(xml)
    assert has_ordered_rows(model, put(SimulationCfg(), model, 1)[0]) is expected


def test_mujoco_warp_still_does_not_sort_the_rows_of_constraints():
    """Once it does, has_ordered_rows() may go; on an H200, two Go2s parted in the sixth step."""
    # private: of mujoco_warp, whose results show it on a GPU alone.
    (body,) = ast.parse(inspect.getsource(constraint._sort_constraints)).body
    assert [type(line) for line in body.body] == [ast.Expr, ast.Pass]


@pytest.mark.parametrize(
    ("lacking", "words"),
    [("is_mempool_enabled", "no memory pool"), ("is_conditional_graph_supported", "CUDA 12.4")],
)
def test_physics_is_not_recorded_where_a_driver_cannot(lacking, words, monkeypatch, caplog):
    gpu = SimpleNamespace(device=torch.device("cuda"), _device=SimpleNamespace(name="a GPU"))
    for name in ("is_mempool_enabled", "is_conditional_graph_supported"):
        monkeypatch.setattr(f"warp.{name}", lambda *_, name=name: name != lacking)
    assert not WarpSimulation.can_record(gpu)
    assert words in caplog.text


@pytest.fixture(scope="module")
def shared_walker() -> Simulation:
    return make(WALKER, "mujoco_warp", **WALKER_CFG)


@pytest.fixture
def walker(shared_walker: Simulation) -> Simulation:
    """Return the walker as it was built: capturing it again would take seconds per test."""
    mass = torch.as_tensor(shared_walker.model.body_mass, dtype=torch.float32)
    shared_walker.params.body_mass.copy_(mass)
    shared_walker.apply_params()
    shared_walker.reset(ALL)
    shared_walker.overflow()
    return shared_walker


def standing(walker: Simulation) -> torch.Tensor:
    """Return positions in which the walker's feet are 1 cm inside the floor."""
    qpos = torch.as_tensor(walker.model.qpos0, dtype=torch.float32).repeat(NUM_ENVS, 1)
    qpos[:, 2] = 0.3
    return qpos


def test_kept_physics_steps_agree_and_end_with_the_current_data(walker):
    other = make(WALKER, **WALKER_CFG)
    for simulation in (walker, other):
        simulation.reset(ALL, standing(walker))
    late = torch.from_numpy(walker.model.sensor_needstage.repeat(walker.model.sensor_dim) == 3)
    for step in range(10):
        for simulation in (walker, other):
            walk(simulation, 1, seed=step)
        left, right = walker.substeps.sensordata, other.substeps.sensordata
        bound = TOLERANCES["walker"]["sensordata"]
        assert torch.allclose(left[:, :, late], right[:, :, late], rtol=0.0, atol=bound)
        assert torch.equal(left[:, 1, late], walker.data.sensordata[:, late])
        assert not torch.equal(left[:, 0, late], left[:, 1, late])


def assert_agree(left: Simulation, right: Simulation, tolerances: dict[str, float]) -> None:
    for name, tensor in left.data.items():
        tolerance = tolerances.get(name, DEFAULT_TOLERANCE)
        difference = (tensor.cpu() - right.data[name].cpu()).abs().max()
        assert difference <= tolerance, f"{name} differs by {difference:.1e}"


def compare_trajectories(left: Simulation, right: Simulation, tolerances: dict) -> None:
    """Drive both alike over 80 control steps with masked resets and body mass randomisation."""
    generator = torch.Generator().manual_seed(0)
    model = left.model
    qpos = torch.as_tensor(model.qpos0, dtype=torch.float32).repeat(NUM_ENVS, 1)

    def reset(mask: torch.Tensor) -> None:
        qvel = 0.1 * torch.randn(NUM_ENVS, model.nv, generator=generator)
        for one in (left, right):
            one.reset(mask.to(one.device), qpos.to(one.device), qvel.to(one.device))
        assert_agree(left, right, tolerances)

    def randomise(mask: torch.Tensor) -> None:
        scale = torch.where(mask, 0.7 + 0.6 * torch.rand(NUM_ENVS, generator=generator), 1.0)
        for one in (left, right):
            one.params.body_mass.mul_(scale[:, None].to(one.device))
            one.apply_params(mask.to(one.device))

    randomise(ALL)
    reset(ALL)
    for step in range(80):
        ctrl = 2 * torch.rand(NUM_ENVS, model.nu, generator=generator) - 1
        for one in (left, right):
            one.ctrl.copy_(ctrl)
            one.step()
        assert_agree(left, right, tolerances)
        mask = torch.rand(NUM_ENVS, generator=generator) < 0.5
        if step % 20 in (5, 16):
            randomise(mask)
        if step % 20 in (5, 12):
            reset(mask)
    assert not left.bad().any()
    assert not right.bad().any()


def test_cartpole_follows_the_cpu_backend():
    pair = [make(CARTPOLE, backend, **CARTPOLE_CFG) for backend in ("mujoco", "mujoco_warp")]
    compare_trajectories(*pair, TOLERANCES["cartpole"])


def test_walker_with_contacts_follows_the_cpu_backend(walker):
    compare_trajectories(make(WALKER, **WALKER_CFG), walker, TOLERANCES["walker"])
    assert not walker.overflow().any()


def test_tensors_are_float32_at_fixed_addresses(walker):
    contract.check_tensors(walker)


def test_graph_and_eager_agree_to_the_bit(walker):
    eager = make(WALKER, "mujoco_warp", graph=False, **WALKER_CFG)
    for simulation in (walker, eager):
        simulation.params.body_mass[:, 1] = torch.tensor([1.5, 2.0, 2.5, 3.0])
        simulation.apply_params()
        simulation.reset(ALL)
        walk(simulation, 10)
        simulation.reset(only(1, 2))
        walk(simulation, 5, seed=1)
    assert_equal(fields(walker), fields(eager))


def test_a_force_accelerates_by_force_over_mass_and_derived_constants_follow():
    targets = make(TARGETS, "mujoco_warp", model_fields=("body_mass",))
    contract.check_force_and_mass(targets)
    constants = targets.state()
    mass = constants["constants.body_subtreemass"][:, 1]
    weight = constants["constants.dof_invweight0"][:, 0]
    assert mass.tolist() == pytest.approx([1.0, 2.0, 2.0, 1.0])
    assert weight.tolist() == pytest.approx([1.0, 0.5, 0.5, 1.0])


@pytest.mark.parametrize(("name", "limit"), [("num_contacts_max", 1), ("num_constraints_max", 3)])
def test_overflow_is_reported_once_even_across_a_reset(name, limit):
    simulation = make(WALKER, "mujoco_warp", **WALKER_CFG, **{name: limit})
    simulation.reset(ALL, standing(simulation))
    assert not simulation.overflow().any()
    simulation.step()
    simulation.reset(ALL)
    assert simulation.overflow().all()
    assert not simulation.overflow().any()
    assert f"env.sim.{name} is {limit}" in simulation.overflow_advice()
    assert "raise it to" in simulation.overflow_advice()


def test_contacts_of_the_pose_in_which_recording_began_are_not_reported():
    in_wall_and_floor = TARGETS.replace('pos="0 0 1"', 'pos="1.9 0 0.1"')
    simulation = make(in_wall_and_floor, "mujoco_warp", num_contacts_max=1)
    simulation.reset(ALL, torch.full((NUM_ENVS, 1), 5.0))
    simulation.step()
    assert not simulation.overflow().any()
    assert simulation.overflow_advice() == "No contact or constraint buffer has been full."


def test_a_broken_state_is_reported_and_a_reset_recovers(walker):
    contract.check_recovery(walker, math.nan, math.inf, 1e11)


def test_state_resumes_bit_for_bit(walker):
    contract.check_resume(walker, walker)


def test_runge_kutta_is_not_replaced_by_euler():
    xml = CARTPOLE.replace("implicitfast", "RK4")
    cfg = {"data_fields": ("xpos",), "decimation": 5}
    pair = [make(xml, backend, **cfg) for backend in ("mujoco", "mujoco_warp")]
    for simulation in pair:
        simulation.reset(ALL, torch.tensor([[0.0, 2.0]]).expand(NUM_ENVS, 2))
        walk(simulation, 20)
    assert_agree(*pair, TOLERANCES["cartpole"])


def test_dropped_simulation_is_freed_without_a_garbage_collection():
    simulation = make(TARGETS, "mujoco_warp", model_fields=("body_mass",))
    simulation.step()
    alive = weakref.ref(simulation)
    gc.collect()  # Compiling kernels leaves Warp's own cycles behind, which hold our frames.
    gc.disable()
    try:
        del simulation
        assert alive() is None
    finally:
        gc.enable()


def test_measured_room_for_contacts_is_proposed(monkeypatch, capsys):
    monkeypatch.setattr(warm, "NUM_STEPS", 3)
    # Else the log of later tests in this process goes to standard error, past caplog.
    monkeypatch.setattr("envlab.distributed.program.configure_logging", lambda: None)
    warm.main(["--task=Isaac-Ant-v0", "--measure", "--device=cpu"])
    output = capsys.readouterr().out
    used = re.findall(r"(\d+) contacts and (\d+) constraint rows in 3 steps", output)
    assert len(used) == 2  # of random actions, and of the policy that comes with envlab
    proposed = [int(value) for value in re.findall(r"env\.sim\.num_\w+_max=(\d+)", output)]
    assert proposed == [2 * max(map(int, values)) for values in zip(*used, strict=True)]
    assert min(proposed) > 0
    with pytest.raises(ConfigurationError, match="has no contacts to measure"):
        warm.main(["--task=tests.seer:Test-Seer-v0", "--measure"])


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(("xml", "name"), [(CARTPOLE, "cartpole"), (WALKER, "walker")])
def test_cuda_follows_the_cpu_backend(xml, name):
    cfg = {"cartpole": CARTPOLE_CFG, "walker": WALKER_CFG}[name]
    cuda = make(xml, "mujoco_warp", device="cuda:0", **cfg)
    compare_trajectories(make(xml, **cfg), cuda, TOLERANCES[name])


@pytest.mark.gpu
@needs_gpu
def test_cuda_step_and_reset_never_wait_for_the_host():
    simulation = make(WALKER, "mujoco_warp", device="cuda:0", **WALKER_CFG)
    mask = only(1).to("cuda:0")
    qpos = simulation.data.qpos.clone()
    force = torch.zeros(NUM_ENVS, 1, 3, device="cuda:0")
    simulation.apply_wrench([1], force, force)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            simulation.ctrl.uniform_(-1, 1)
            simulation.apply_wrench([1], force, force)
            simulation.step()
            simulation.reset(mask, qpos)
            simulation.reset(mask)
            simulation.apply_params(mask)
            simulation.bad()
            simulation.overflow()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not simulation.bad().any()


@pytest.mark.gpu
@needs_gpu
def test_cuda_work_follows_the_current_torch_stream():
    simulation = make(TARGETS, "mujoco_warp", device="cuda:0", model_fields=("body_mass",))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # private: torch has no other sleep. The reset must wait for it and the fill behind it.
        torch.cuda._sleep(50_000_000)
        heights = torch.full((NUM_ENVS, 1), 0.5, device="cuda:0")
        simulation.reset(ALL.to("cuda:0"), heights)
        shown = simulation.data.qpos.clone()
    stream.synchronize()
    assert (shown == 0.5).all()
