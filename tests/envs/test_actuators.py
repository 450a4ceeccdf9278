"""Actuator models give the torques that follow by hand, on both backends."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, SimulationCfg, mdp
from envlab.envs.actuators import (
    AnyActuatorCfg,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
)
from envlab.envs.scene import build_model
from envlab.sim.simulation import Simulation, create_simulation
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_cfg, rank, terms

DT = 0.005
ROTOR = """
<mujoco>
  <option gravity="0 0 0" integrator="implicitfast"/>
  <worldbody>
    <body><joint name="rotor" axis="0 0 1"/><geom size="0.1" pos="0.5 0 0" mass="1000"/></body>
    <body pos="0 2 0"><joint name="other" axis="0 0 1"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><motor name="drive" joint="rotor" gear="50" ctrlrange="-0.1 0.1"/></actuator>
  <sensor><actuatorfrc name="torque" actuator="drive"/></sensor>
  {rest}
</mujoco>
"""
"""A rotor so heavy that its velocity hardly changes, with a motor that is to be replaced."""


@pytest.fixture(params=["mujoco", "mujoco_warp"])
def backend(request) -> str:
    if request.param == "mujoco_warp":
        pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    return request.param


def scene(folder: Path, actuator: AnyActuatorCfg, rest: str = "") -> SceneCfg:
    (folder / "rotor.xml").write_text(ROTOR.format(rest=rest))
    return SceneCfg(model=str(folder / "rotor.xml"), actuators={"rotor": actuator})


def make(
    folder: Path, backend: str, actuator: AnyActuatorCfg, num_envs: int, rest: str = ""
) -> Simulation:
    cfg = SimulationCfg(dt=DT, backend=backend, data_fields=("actuator_force",))
    model = build_model(scene(folder, actuator, rest), SimulationCfg(dt=DT))
    return create_simulation(cfg, model, num_envs, decimation=1, device=torch.device("cpu"))


def torques(simulation: Simulation, target: float, velocities: list[float]) -> list[float]:
    """Return the torques at position 0 and some velocities."""
    qvel = torch.zeros_like(simulation.data.qvel)
    qvel[:, 0] = torch.tensor(velocities)
    everyone = torch.ones(simulation.num_envs, dtype=torch.bool)
    simulation.reset(everyone, torch.zeros_like(simulation.data.qpos), qvel)
    simulation.ctrl.fill_(target)
    simulation.step()
    return simulation.data.actuator_force[:, 0].tolist()


def test_pd_control_up_to_the_effort_limit(backend, tmp_path):
    for cls in (ImplicitActuatorCfg, IdealPDActuatorCfg):
        actuator = cls(stiffness=100.0, damping=2.0, effort_limit=12.0)
        simulation = make(tmp_path, backend, actuator, 4)
        # 100 (0.1 - 0) - 2 v = 10 - 2 v, within +-12
        found = torques(simulation, 0.1, [0.0, 3.0, -4.0, 20.0])
        assert found == pytest.approx([10.0, 4.0, 12.0, -12.0], rel=1e-5)


def test_a_motor_loses_torque_as_it_turns(backend, tmp_path):
    """The lines 20 (1 - v / 10) and 20 (-1 - v / 10), and the limits +-12."""
    limits = {"effort_limit": 12.0, "saturation_effort": 20.0, "velocity_limit": 10.0}
    actuator = DCMotorCfg(stiffness=100.0, damping=2.0, **limits)
    velocities = [0.0, 3.0, 5.0, 8.0, 10.0, 12.0, 16.0, -5.0]
    simulation = make(tmp_path, backend, actuator, len(velocities))
    for target, expected in (
        (1.0, [12.0, 12.0, 10.0, 4.0, 0.0, -4.0, -12.0, 12.0]),
        (-1.0, [-12.0] * 7 + [-10.0]),
        (0.05, [5.0, -1.0, -5.0, -11.0, -12.0, -12.0, -12.0, 12.0]),  # inside: 5 - 2 v
    ):
        assert torques(simulation, target, velocities) == pytest.approx(expected, abs=1e-4)


def test_without_stiffness_controls_are_velocities_or_efforts(backend, tmp_path):
    motor = {"saturation_effort": 20.0, "velocity_limit": 10.0}
    for actuator, expected in (
        (IdealPDActuatorCfg(damping=2.0), 2.0 * (0.5 - 3.0)),  # a control is a velocity
        (DCMotorCfg(damping=2.0, **motor), 2.0 * (0.5 - 3.0)),
        (IdealPDActuatorCfg(), 0.5),  # a control is a torque
        (DCMotorCfg(**motor), 0.5),
    ):
        simulation = make(tmp_path, backend, actuator, 1)
        assert torques(simulation, 0.5, [3.0]) == pytest.approx([expected], rel=1e-5), actuator


def test_armature_and_friction_are_set_on_the_joints_of_the_group(tmp_path):
    actuator = ImplicitActuatorCfg(armature=0.3, friction={"ro.*": 0.2})
    model = build_model(scene(tmp_path, actuator))
    assert model.dof_armature.tolist() == [0.3, 0.0]
    assert model.dof_frictionloss.tolist() == [0.2, 0.0]


def rising(simulation: Simulation, steps: int) -> torch.Tensor:
    """Return the torques while the target is 1, 2, 3, ..., ``(steps, num_envs)``."""
    rows = []
    for step in range(steps):
        simulation.ctrl.fill_(float(step + 1))
        simulation.step()
        rows.append(simulation.data.actuator_force[:, 0].clone())
    return torch.stack(rows)


def test_targets_are_late_by_the_delay(backend, tmp_path):
    for delay in (0, 1, 3):
        actuator = DelayedPDActuatorCfg(stiffness=10.0, min_delay=delay, max_delay=delay)
        simulation = make(tmp_path, backend, actuator, 2)
        expected = [10.0 * max(0, step + 1 - delay) for step in range(6)]
        for _ in range(2):  # a reset forgets the targets of before
            simulation.reset(torch.ones(2, dtype=torch.bool))
            found = rising(simulation, 6)[:, 1].tolist()
            assert found == pytest.approx(expected, abs=2e-3), delay


def test_delays_hold_over_a_long_episode(backend, tmp_path):
    """The time is the sum of 4000 steps, on a GPU in float32."""
    actuator = DelayedPDActuatorCfg(stiffness=10.0, min_delay=2, max_delay=2)
    simulation = make(tmp_path, backend, actuator, 1)
    for step in range(4000):
        simulation.ctrl.fill_(0.001 * (step % 7))
        simulation.step()
        expected = 10.0 * (0.001 * ((step - 2) % 7) - simulation.data.qpos[0, 0])
        if step > 3990:
            assert simulation.data.actuator_force[0, 0] == pytest.approx(float(expected), abs=2e-3)


def test_until_the_first_target_arrives_the_home_pose_is_held(backend, tmp_path):
    home = '<keyframe><key name="home" qpos="0.4 0" ctrl="0"/></keyframe>'
    actuator = DelayedPDActuatorCfg(stiffness=10.0, min_delay=2, max_delay=2)
    simulation = make(tmp_path, backend, actuator, 1, home)
    qpos = torch.tensor([[0.4, 0.0]])
    simulation.reset(torch.ones(1, dtype=torch.bool), qpos, torch.zeros(1, 2))
    # The targets 1 and 2 come two steps late; before, 10 (0.4 - 0.4) = 0.
    assert rising(simulation, 4)[:, 0].tolist() == pytest.approx([0.0, 0.0, 6.0, 16.0], abs=2e-3)


def make_env(folder: Path, backend: str = "mujoco", num_envs: int = 64) -> ManagerEnv:
    actions = terms(target=mdp.JointPositionActionCfg(joint_names="rotor"))
    sim = {"dt": DT, "backend": backend, "data_fields": ("actuator_force",)}
    cfg = make_cfg(sim=sim, actions=actions)
    cfg.scene = scene(folder, DelayedPDActuatorCfg(stiffness=10.0, min_delay=0, max_delay=3))
    cfg.scene.num_envs = num_envs
    return ManagerEnv(cfg, context=rank(0, 1), seed=3)


def delays_of(env: ManagerEnv) -> torch.Tensor:
    """Return the delay of each environment in steps."""
    return (env.sim.params.actuator_delay[:, 0] / DT + 0.5).floor()


def test_each_environment_has_its_own_delay_from_reset_to_reset(backend, tmp_path):
    env = make_env(tmp_path, backend)
    delays = delays_of(env)
    assert sorted(set(delays.tolist())) == [0.0, 1.0, 2.0, 3.0]
    for step in range(5):
        env.step(torch.full((env.num_envs, 1), float(step + 1)))
        late = (step + 1 - delays).clamp(min=0.0)
        assert torch.allclose(env.sim.data.actuator_force[:, 0], 10.0 * late, atol=2e-3)
    mask = torch.arange(env.num_envs) < 32
    env.reset(options={"reset_mask": mask})
    assert (delays_of(env)[32:] == delays[32:]).all()
    assert (delays_of(env)[:32] != delays[:32]).any()


def test_impossible_actuators_are_refused(tmp_path):
    (tmp_path / "rotor.xml").write_text(ROTOR.format(rest=""))
    ideal, motor = IdealPDActuatorCfg, DCMotorCfg(saturation_effort=0.0, velocity_limit=1.0)
    table = {
        "matches 'elbow'; it has rotor, other": {"elbow": ideal()},
        r"scene\.actuators\.a: no hinge or slide joint of the model matches 'rotr'": {
            "a": ideal(joint_names_expr=["rotr"])
        },
        r"names the joint 'rotor', which env\.scene\.actuators\.\.\* has already": {
            ".*": ideal(),
            "rotor": ideal(),
        },
        r"rotor\.stiffness names 'other', which matches no joint of its group: rotor": {
            "rotor": ideal(stiffness={"other": 1.0})
        },
        r"rotor\.damping is -1\.0": {"rotor": ideal(damping=-1.0)},
        r"saturation_effort is 0\.0, but must be greater than 0": {"rotor": motor},
        "min_delay 3 and max_delay 2, but needs 0 <= min_delay <= max_delay": {
            "rotor": DelayedPDActuatorCfg(min_delay=3, max_delay=2)
        },
    }
    model = str(tmp_path / "rotor.xml")
    assert_refused(
        {
            words: lambda one=one: build_model(SceneCfg(model=model, actuators=one))
            for words, one in table.items()
        }
    )
