"""Actuator models beside Isaac Lab's own classes, on the same targets and states."""

from __future__ import annotations

import importlib
import io
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from envlab.envs.actuators import (
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    DCMotorCfg,
    IdealPDActuatorCfg,
    RemotizedPDActuatorCfg,
)
from envlab.envs.random import EnvRandom
from envlab.envs.torch_actuators import TorchActuator
from tests.envs.test_torch_actuators import arm, simulation

pytestmark = pytest.mark.long
assert arm  # a fixture

NUM_ENVS, JOINTS = 5, ["shoulder", "elbow"]
LINE = {"saturation_effort": 6.0, "velocity_limit": 8.0, "effort_limit": 4.0}
GAINS = {"stiffness": 20.0, "damping": 0.5}
ANGLES = [[-1.0, 1.0, 1.0], [0.0, 1.0, 3.0], [1.5, 1.0, 0.5]]
NETWORKS = "envlab_assets:actuators/"
MODELS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "IdealPDActuator": (IdealPDActuatorCfg, GAINS | {"effort_limit": 2.0, "in_torch": True}),
    "DCMotor": (DCMotorCfg, GAINS | LINE | {"in_torch": True}),
    "RemotizedPDActuator": (RemotizedPDActuatorCfg, GAINS | {"joint_parameter_lookup": ANGLES}),
    "ActuatorNetMLP": (
        ActuatorNetMLPCfg,
        LINE | {"network_file": f"{NETWORKS}go2_mlp.pt", "input_idx": (0, 2, 4)},
    ),
    "ActuatorNetLSTM": (ActuatorNetLSTMCfg, LINE | {"network_file": f"{NETWORKS}anymal_d_lstm.pt"}),
}
"""By the name of Isaac Lab's class: ours, and its settings."""


@pytest.fixture
def classes(isaac: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Isaac Lab's classes, from their files alone: its packages' own imports need a simulator."""
    for name in ("isaaclab", "isaaclab.utils", "isaaclab.actuators"):
        package = types.ModuleType(name)
        package.__path__ = [str(isaac.joinpath(*name.split(".")[1:]))]
        monkeypatch.setitem(sys.modules, name, package)
    assets: Any = types.ModuleType("isaaclab.utils.assets")
    assets.read_file = lambda path: io.BytesIO(Path(path).read_bytes())
    monkeypatch.setitem(sys.modules, "isaaclab.utils.assets", assets)
    utils: Any = sys.modules["isaaclab.utils"]
    utils.DelayBuffer = importlib.import_module("isaaclab.utils.buffers.delay_buffer").DelayBuffer
    found = importlib.import_module("isaaclab.utils.interpolation.linear_interpolation")
    utils.LinearInterpolation = found.LinearInterpolation
    modules = (
        importlib.import_module(f"isaaclab.actuators.actuator_{kind}") for kind in ("pd", "net")
    )
    return {name: value for module in modules for name, value in vars(module).items()}


@pytest.mark.parametrize("name", MODELS)
def test_efforts_are_isaac_labs(name: str, classes: dict[str, Any], isaac: Path, arm: str):
    cls, settings = MODELS[name]
    own = cls(joint_names_expr=[".*"], **settings)
    sim, everyone = simulation(arm, own, NUM_ENVS), torch.ones(NUM_ENVS, dtype=torch.bool)
    ours = TorchActuator("all", own, sim, EnvRandom(0, 0, NUM_ENVS, sim.device))
    ours.reset(everyone)
    defaults = vars(own)
    file = settings.get("network_file", "").replace(":", "/")
    root = Path(__file__).parents[2] / "source"
    cfg = SimpleNamespace(**defaults | {"network_file": str(root / file)})
    cfg.effort_limit_sim = cfg.velocity_limit_sim = cfg.armature = cfg.friction = None
    cfg.dynamic_friction = cfg.viscous_friction = None
    cfg.velocity_limit = defaults.get("velocity_limit")
    cfg.max_delay = cfg.min_delay = 0
    theirs = classes[name](cfg, JOINTS, slice(None), NUM_ENVS, "cpu")
    theirs.reset(slice(None))
    draw = torch.Generator().manual_seed(0)
    none = torch.zeros(NUM_ENVS, 2)
    for _ in range(12):
        target, position = (torch.randn(NUM_ENVS, 2, generator=draw) for _ in range(2))
        velocity = 5.0 * torch.randn(NUM_ENVS, 2, generator=draw)
        actions = classes["ArticulationActions"](target, none, none)
        expected = theirs.compute(actions, position, velocity).joint_efforts
        sim.reset(everyone, position, velocity)
        sim.ctrl.copy_(target)
        ours.take_targets()
        ours.control()
        if name == "ActuatorNetLSTM":  # whose limits are there always those at rest
            torch.testing.assert_close(
                ours.computed_effort, theirs.computed_effort, rtol=1e-5, atol=1e-5
            )
        else:
            torch.testing.assert_close(ours.applied_effort, expected, rtol=1e-5, atol=1e-5)
