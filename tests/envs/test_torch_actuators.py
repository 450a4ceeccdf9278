"""Actuators computed in torch: equal to MuJoCo's where these exist, to a formula elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from envlab.envs import ManagerEnv, SceneCfg, SimulationCfg, mdp
from envlab.envs.actuators import (
    ActuatorFunctionCfg,
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    RemotizedPDActuatorCfg,
)
from envlab.envs.managers import EventTermCfg
from envlab.envs.random import EnvRandom
from envlab.envs.scene import build_model
from envlab.envs.torch_actuators import TorchActuator, torch_actuators
from envlab.errors import SimulationError
from envlab.registry import get_task, load_env_cfg
from envlab.sim.simulation import Simulation, create_simulation
from envlab.training.deployment import NotDeployable, describe
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_cfg, rank, terms
from tests.launcher import ROOT

DT, DECIMATION = 0.005, 4
ARM = """
<mujoco>
  <option timestep="0.005" integrator="Euler"><flag eulerdamp="disable"/></option>
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04" mass="1"/>
      <body name="lower" pos="0 0 -0.4"><joint name="elbow" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03" mass="0.5"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
GO2 = "Isaac-Velocity-Flat-Unitree-Go2-v0"


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(ARM)
    return str(path)


def simulation(arm: str, actuator: Any, num_envs: int = 3, **fields: Any) -> Simulation:
    scene = SceneCfg(model=arm, ground=False, actuators={"all": actuator})
    cfg = SimulationCfg(dt=DT, **fields)
    model, device = build_model(scene, cfg), torch.device("cpu")
    return create_simulation(cfg, model, num_envs, decimation=DECIMATION, device=device)


def moved(arm: str, cfg: Any, steps: int = 20) -> torch.Tensor:
    """Return the positions in control steps with targets that change."""
    sim = simulation(arm, cfg)
    found = torch_actuators({"all": cfg}, sim, EnvRandom(0, 0, 3, sim.device))
    for actuator in found or ():
        actuator.reset(torch.ones(3, dtype=torch.bool))
    targets = torch.rand(steps, 3, 2, generator=torch.Generator().manual_seed(1)) - 0.5
    rows = []
    for target in targets:
        sim.ctrl.copy_(target)
        if found is None:
            sim.step()
        else:
            (actuator,) = found
            actuator.take_targets()
            for number in range(DECIMATION):
                actuator.control()
                sim.substep(number)
        rows.append(sim.data.qpos.clone())
    return torch.stack(rows)


GAINS = {"joint_names_expr": [".*"], "stiffness": 20.0, "damping": 0.5, "effort_limit": 4.0}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (IdealPDActuatorCfg, {}),
        (IdealPDActuatorCfg, {"stiffness": {"shoulder": 30.0, "elbow": 10.0}}),
        (IdealPDActuatorCfg, {"stiffness": 0.0, "damping": 20.0}),
        (IdealPDActuatorCfg, {"stiffness": 0.0, "damping": 0.0}),
        (DCMotorCfg, {"saturation_effort": 6.0, "velocity_limit": 8.0}),
    ],
)
def test_torch_moves_a_robot_as_mujocos_own_actuators(arm: str, kind: Any, settings: Any):
    mujocos = moved(arm, kind(**{**GAINS, **settings}))
    ours = moved(arm, kind(**{**GAINS, **settings}, in_torch=True))
    assert mujocos.abs().max() > 0.05
    torch.testing.assert_close(ours, mujocos, rtol=1e-4, atol=1e-4)


def actuator_of(arm: str, cfg: Any, num_envs: int = 3, seed: int = 0) -> TorchActuator:
    sim = simulation(arm, cfg, num_envs)
    made = TorchActuator("all", cfg, sim, EnvRandom(seed, 0, num_envs, sim.device))
    made.reset(torch.ones(num_envs, dtype=torch.bool))
    return made


def efforts(
    made: TorchActuator, target: float, positions: list[float], velocities: list[float]
) -> list[float]:
    """Return the elbow's effort in each environment."""
    sim = made._sim  # private: physics is put where the law is checked
    num = len(positions)
    qpos = torch.tensor([[0.0, one] for one in positions])
    qvel = torch.tensor([[0.0, one] for one in velocities])
    sim.reset(torch.ones(num, dtype=torch.bool), qpos, qvel)
    sim.ctrl.fill_(target)
    made.take_targets()
    made.control()
    return made.applied_effort[:, 1].tolist()


def test_a_remotized_limit_follows_the_angle(arm: str):
    table = [[-1.0, 1.0, 10.0], [0.0, 1.0, 20.0], [1.0, 1.0, 60.0]]
    cfg = RemotizedPDActuatorCfg(
        joint_names_expr=[".*"], stiffness=1e4, joint_parameter_lookup=table
    )
    made = actuator_of(arm, cfg, 5)
    found = efforts(made, 5.0, [-2.0, -0.5, 0.0, 0.5, 2.0], [0.0] * 5)
    assert found == pytest.approx([10.0, 15.0, 20.0, 40.0, 60.0], rel=1e-5)


def test_a_delay_is_drawn_at_resets_and_the_first_target_acts_at_once(arm: str):
    cfg = DelayedPDActuatorCfg(
        joint_names_expr=[".*"], stiffness=1.0, min_delay=2, max_delay=2, in_torch=True
    )
    made, shown = actuator_of(arm, cfg, 1), []
    sim = made._sim  # private: as above
    for target in (1.0, 2.0, 3.0, 4.0):
        sim.ctrl.fill_(target)
        made.take_targets()
        made.control()
        shown.append(made.applied_effort[0, 1].item())
    assert shown == [1.0, 1.0, 1.0, 2.0]


def test_each_environment_draws_its_delay_when_it_is_reset(arm: str):
    cfg = DelayedPDActuatorCfg(
        joint_names_expr=[".*"], stiffness=1.0, min_delay=1, max_delay=3, in_torch=True
    )
    made = actuator_of(arm, cfg, 64)

    def drawn() -> torch.Tensor:
        for target in range(6):
            found = efforts(made, float(target), [0.0] * 64, [0.0] * 64)
        return 5.0 - torch.tensor(found)

    first = drawn()
    assert set(first.tolist()) == {1.0, 2.0, 3.0}
    made.reset(torch.arange(64) < 32)
    second = drawn()
    assert torch.equal(first[32:], second[32:])
    assert not torch.equal(first[:32], second[:32])


class Net(nn.Module):
    """Adds up what it sees."""

    def __init__(self, num: int) -> None:
        super().__init__()
        self.layer = nn.Linear(num, 1, bias=False)
        nn.init.constant_(self.layer.weight, 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(
        self, x: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        found, after = self.lstm(x, memory)
        return 5.0 * self.head(found[:, -1]), after


def saved(module: nn.Module, path: Path) -> str:
    torch.jit.script(module).save(str(path))
    return str(path)


MOTOR = {"joint_names_expr": [".*"], "saturation_effort": 50.0, "velocity_limit": 20.0}


def arms(arm: str, actuator: Any, **events: Any) -> ManagerEnv:
    cfg = make_cfg(
        8,
        sim={"dt": DT},
        actions=terms(arm=mdp.JointPositionActionCfg(joint_names=[".*"])),
        events=terms(**events),
    )
    cfg.scene = SceneCfg(num_envs=8, model=arm, ground=False, actuators={"all": actuator})
    return ManagerEnv(cfg, context=rank(0, 1), seed=0)


def positions(arm: str, gains: dict[str, Any], **events: Any) -> torch.Tensor:
    env = arms(arm, IdealPDActuatorCfg(**gains), **events)
    env.reset()
    for _ in range(10):
        env.step(torch.full((8, 2), 0.8))
    return env.sim.data.qpos.clone()


@pytest.mark.parametrize(
    ("event", "ranges"),
    [
        (mdp.dr.pd_gains, {"kp_range": (0.4, 1.6), "kd_range": (0.2, 3.0)}),
        (mdp.dr.effort_limits, {"effort_limit_range": (0.3, 2.0)}),
    ],
)
def test_events_change_gains_and_limits_as_those_of_mujocos_own(arm: str, event: Any, ranges: Any):
    change = EventTermCfg(func=event, mode="startup", params=ranges)
    gains = GAINS | {"effort_limit": 2.0}
    ours = positions(arm, gains | {"in_torch": True}, change=change)
    mujocos = positions(arm, gains, change=change)
    torch.testing.assert_close(ours, mujocos, rtol=1e-3, atol=1e-3)
    assert mujocos.std(dim=0).max() > 0.02
    assert positions(arm, gains | {"in_torch": True}).std(dim=0).max() < 1e-6


def test_a_models_own_gain_is_its_strength(arm: str):
    scale = {"field": "actuator_gainprm", "ranges": {0: (0.5, 0.5)}, "operation": "scale"}
    weak = EventTermCfg(func=mdp.randomize_model_field, mode="startup", params=scale)
    half = {"stiffness": 10.0, "damping": 0.25, "effort_limit": None}
    expected = positions(arm, {**GAINS, **half, "in_torch": True})
    strong = {**GAINS, "effort_limit": None, "in_torch": True}
    torch.testing.assert_close(positions(arm, strong, weak=weak), expected, rtol=1e-4, atol=1e-4)
    assert (positions(arm, strong) - expected).abs().min() > 0.01


def test_a_motors_line_ends_where_its_changed_limit_does(arm: str):
    line = {"saturation_effort": 6.0, "velocity_limit": 8.0, "effort_limit": 2.0}
    cfg = DCMotorCfg(**GAINS | line, in_torch=True)
    sim = simulation(arm, cfg, model_fields=("actuator_forcerange",))
    everyone = torch.ones(3, dtype=torch.bool)
    sim.params.actuator_forcerange.mul_(2.0)
    sim.apply_params(everyone)
    motor = TorchActuator("all", cfg, sim, EnvRandom(0, 0, 3, sim.device))
    motor.reset(everyone)
    sim.reset(everyone, torch.zeros(3, 2), torch.full((3, 2), -12.0))  # 1.5 times the free speed
    sim.ctrl.fill_(-10.0)
    motor.take_targets()
    motor.control()
    # It cannot push further back than 6 (1.5 - 1) N m forward; with the first limit, 2 N m.
    assert motor.applied_effort.flatten().tolist() == pytest.approx([3.0] * 6)


def test_an_mlp_sees_errors_and_velocities_of_its_ages(arm: str, tmp_path: Path):
    file = saved(Net(4), tmp_path / "mlp.pt")
    cfg = ActuatorNetMLPCfg(
        **MOTOR,
        network_file=file,
        pos_scale=2.0,
        vel_scale=0.1,
        torque_scale=3.0,
        input_idx=(0, 2),
    )
    made = actuator_of(arm, cfg, 1)
    steps = [(0.5, 1.0), (0.2, 2.0), (0.1, 3.0)]  # position, velocity; the target is 1
    found = [efforts(made, 1.0, [pos], [vel])[0] for pos, vel in steps]
    expected = [
        3.0 * (2.0 * 0.5 + 0.1 * 1.0),
        3.0 * (2.0 * 0.8 + 0.1 * 2.0),
        3.0 * (2.0 * (0.9 + 0.5) + 0.1 * (3.0 + 1.0)),
    ]
    assert found == pytest.approx(expected, rel=1e-5)


def test_an_lstm_remembers_each_joint_of_each_environment(arm: str, tmp_path: Path):
    torch.manual_seed(0)
    module = Recurrent()
    cfg = ActuatorNetLSTMCfg(**MOTOR, network_file=saved(module, tmp_path / "lstm.pt"))
    made = actuator_of(arm, cfg, 2)
    memory = (torch.zeros(2, 2, 4), torch.zeros(2, 2, 4))
    for step in range(4):
        positions, velocities = [0.1 * step, -0.2 * step], [float(step), 1.0]
        found = efforts(made, 0.3, positions, velocities)
        errors = torch.tensor([0.3 - one for one in positions])
        inputs = torch.stack((errors, torch.tensor(velocities)), dim=1).unsqueeze(1)
        expected, memory = module(inputs, memory)
        assert found == pytest.approx(expected[:, 0].tolist(), abs=1e-5)
    made.reset(torch.tensor([True, False]))
    first, second = efforts(made, 0.3, [0.0, 0.0], [0.0, 0.0])
    assert first != pytest.approx(second, abs=1e-4)


def spring(targets: torch.Tensor, positions: torch.Tensor, velocities: torch.Tensor, gain: float):
    return gain * (targets - positions) ** 3


def test_a_law_of_ones_own(arm: str):
    cfg = ActuatorFunctionCfg(joint_names_expr=[".*"], func=spring, params={"gain": 8.0})
    assert efforts(actuator_of(arm, cfg, 1), 0.5, [0.0], [0.0]) == [1.0]


def test_what_does_not_fit_is_refused(arm: str, tmp_path: Path):
    (tmp_path / "text.pt").write_text("no network")
    wide, plain = saved(Net(6), tmp_path / "wide.pt"), saved(Net(2), tmp_path / "plain.pt")
    broken = Net(2)
    nn.init.constant_(broken.layer.weight, torch.nan)
    nan = saved(broken, tmp_path / "nan.pt")

    def mlp(file: str, **settings: Any) -> Any:
        cfg = ActuatorNetMLPCfg(**MOTOR, network_file=file, input_idx=(0,), **settings)
        return lambda: actuator_of(arm, cfg)

    table = RemotizedPDActuatorCfg(joint_names_expr=[".*"], joint_parameter_lookup=[[1.0, 2.0]])
    lstm = ActuatorNetLSTMCfg(**MOTOR, network_file=plain)
    cartpole = load_env_cfg(get_task("Isaac-Cartpole-v0"))
    cartpole.sim.backend, cartpole.scene.num_envs = "analytic", 2
    law = ActuatorFunctionCfg(func=spring, params={"gain": 1.0})
    cartpole.scene.actuators = {"slider_to_cart": law}

    def function(func: Any, **settings: Any) -> Any:
        made = ActuatorFunctionCfg(joint_names_expr=[".*"], func=func, **settings)
        return lambda: actuator_of(arm, made)

    def declared(cls: Any, **settings: Any) -> Any:
        return lambda: arms(arm, cls(**settings))

    assert_refused(
        {
            "network_file is 'gone.pt', which does not exist": mlp("gone.pt"),
            r"text.pt is not TorchScript": mlp(str(tmp_path / "text.pt")),
            "does not take 2 inputs for each joint": mlp(wide),
            "effort at rest is not finite": mlp(nan),
            "function does not take targets, positions, velocities and its": function(spring),
            "errors and velocities of before": function(
                spring, params={"gain": 1.0}, history_length=2
            ),
            r"returned torch.Size\(\[3, 1\]\), but must": function(lambda t, p, v: t[:, :1]),
            "returned float, but must": function(lambda t, p, v: 0.0),
            "input_idx.1 is -1, but must be at least 0": declared(
                ActuatorNetMLPCfg, **MOTOR, network_file=plain, input_idx=(0, -1)
            ),
            "input_idx is empty": lambda: actuator_of(
                arm, ActuatorNetMLPCfg(**MOTOR, network_file=plain, input_idx=())
            ),
            "history_length is -1, but must be at least 0": declared(
                ActuatorFunctionCfg, joint_names_expr=[".*"], func=spring, history_length=-1
            ),
            "has no part 'lstm'": lambda: actuator_of(arm, lstm),
            r"joint_parameter_lookup has shape \(1, 2\)": lambda: actuator_of(arm, table),
            "each physics step, and env.sim.backend=analytic has none": lambda: ManagerEnv(
                cartpole, seed=0
            ),
        }
    )


def test_what_is_found_late_is_named_with_its_setting_or_joint(arm: str):
    def breaks(targets: torch.Tensor, positions: torch.Tensor, _: Any) -> torch.Tensor:
        wanted = targets - positions
        wanted[:, 1] /= (targets[:, 1] == 0.0).float()
        return wanted

    def broken() -> None:
        env = arms(arm, ActuatorFunctionCfg(joint_names_expr=[".*"], func=breaks))
        env.reset()
        env.step(torch.full((8, 2), 0.8))

    elsewhere = ActuatorNetMLPCfg(**MOTOR, network_file="nopackage:a.pt")
    assert_refused(
        {
            "all.network_file is 'nopackage:a.pt', but there": lambda: actuator_of(arm, elsewhere),
            "not finite: 'all' of elbow. Correct their models": broken,
        },
        SimulationError,
    )


def test_go2_with_networks_and_delays_keeps_the_promises_of_every_task(tmp_path: Path):
    torch.manual_seed(0)
    cfg = load_env_cfg(get_task(GO2))
    motor = {"saturation_effort": 23.5, "velocity_limit": 30.0, "effort_limit": 23.5}
    cfg.scene.actuators = {
        "hips": ActuatorNetLSTMCfg(
            joint_names_expr=[".*_hip_joint"],
            network_file=saved(Recurrent(), tmp_path / "lstm.pt"),
            **motor,
        ),
        "thighs": ActuatorNetMLPCfg(
            joint_names_expr=[".*_thigh_joint"],
            network_file=saved(Net(6), tmp_path / "mlp.pt"),
            torque_scale=10.0,
            **motor,
        ),
        "calves": DelayedPDActuatorCfg(
            joint_names_expr=[".*_calf_joint"],
            stiffness=25.0,
            damping=0.5,
            min_delay=0,
            max_delay=3,
            in_torch=True,
        ),
    }
    assert_keeps_promises(cfg)


@pytest.mark.slow
def test_the_page_records_trains_and_uses_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/actuators.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "docs/actuators.md", "exec"), names)  # the page's own code
    error, spread = map(
        float, re.findall(r"error ([\d.]+) N m of ([\d.]+)", capsys.readouterr().out)[0]
    )
    assert error < 0.25 * spread
    assert names["obs"]["policy"].isfinite().all()
    (actuator,) = names["env"].torch_actuators
    assert actuator.applied_effort.abs().max() > 0.0
    with pytest.raises(NotDeployable, match="'legs' are computed in torch"):
        describe(names["env"], {}, "envlab")
