"""MuJoCo's options as settings: each reaches the model, and physics obeys."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mujoco
import pytest
import torch

import envlab
from envlab.envs.scene import SceneCfg, build_model
from envlab.sim.cfg import OptionsCfg, apply_options
from envlab.sim.simulation import SimulationCfg, create_simulation

BALL = """
<mujoco>
  <option gravity="0 0 -9.81" iterations="7"><flag damper="disable"/></option>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 1"><freejoint/><geom size="0.1" mass="1"/></body>
  </worldbody>
</mujoco>
"""
VALUES: dict[str, tuple[Any, Any]] = {
    "integrator": ("implicitfast", int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST)),
    "solver": ("cg", int(mujoco.mjtSolver.mjSOL_CG)),
    "cone": ("elliptic", int(mujoco.mjtCone.mjCONE_ELLIPTIC)),
    "jacobian": ("dense", int(mujoco.mjtJacobian.mjJAC_DENSE)),
    "iterations": (3, 3),
    "ls_iterations": (4, 4),
    "noslip_iterations": (2, 2),
    "tolerance": (1e-4, 1e-4),
    "ls_tolerance": (0.1, 0.1),
    "impratio": (10.0, 10.0),
    "gravity": ((0.0, 0.0, -1.62), [0.0, 0.0, -1.62]),
    "wind": ((1.0, 0.0, 0.0), [1.0, 0.0, 0.0]),
    "density": (1.2, 1.2),
    "viscosity": (1e-5, 1e-5),
}
"""By setting: its value, and that of ``MjOption``."""


@pytest.fixture
def scene(tmp_path: Path) -> SceneCfg:
    (tmp_path / "ball.xml").write_text(BALL)
    return SceneCfg(model=str(tmp_path / "ball.xml"), ground=False)


def test_each_option_reaches_the_model_and_null_leaves_the_files(scene: SceneCfg):
    flags = {"disable_flags", "enable_flags"}
    assert VALUES.keys() | flags == {field.name for field in dataclasses.fields(OptionsCfg)}
    untouched = build_model(scene, SimulationCfg(dt=0.004)).opt
    assert (untouched.iterations, untouched.timestep) == (7, 0.004)
    for name, (given, expected) in VALUES.items():
        opt = build_model(scene, SimulationCfg(**{name: given})).opt
        found = getattr(opt, name)
        assert (found.tolist() if hasattr(found, "tolist") else found) == expected, name


def test_every_flag_of_mujoco_has_its_name():
    known = {"disable": mujoco.mjtDisableBit, "enable": mujoco.mjtEnableBit}
    for name, kind in known.items():
        field = next(one for one in dataclasses.fields(OptionsCfg) if one.name == f"{name}_flags")
        for flag in [part.strip("' \"") for part in _choices(field)]:
            option = mujoco.MjSpec().option
            before = getattr(option, f"{name}flags")
            apply_options(option, OptionsCfg(**{field.name: (flag,)}))
            bit = getattr(kind, f"mj{'DSBL' if name == 'disable' else 'ENBL'}_{flag.upper()}")
            assert getattr(option, f"{name}flags") == before | int(bit), flag


def _choices(field: dataclasses.Field[Any]) -> list[str]:
    from typing import get_args, get_type_hints

    (flag, _) = get_args(get_type_hints(OptionsCfg)[field.name])
    return list(get_args(flag))


def test_flags_are_added_to_the_files(scene: SceneCfg):
    opt = build_model(scene, SimulationCfg(disable_flags=("contact",))).opt
    bits = mujoco.mjtDisableBit
    assert opt.disableflags == int(bits.mjDSBL_DAMPER) | int(bits.mjDSBL_CONTACT)


def test_a_ball_falls_as_on_the_moon_and_through_a_floor_without_contacts(scene: SceneCfg):
    def height(**options: Any) -> float:
        cfg = SimulationCfg(dt=0.001, **options)
        simulation = create_simulation(
            cfg, build_model(scene, cfg), 1, decimation=1000, device=torch.device("cpu")
        )
        simulation.step()
        return float(simulation.data.qpos[0, 2])

    assert height(gravity=(0.0, 0.0, -1.62)) == pytest.approx(1.0 - 0.5 * 1.62, abs=2e-3)
    assert height(disable_flags=("contact",)) == pytest.approx(1.0 - 0.5 * 9.81, abs=1e-2)
    assert height() > 0.09


def test_they_are_overrides_of_a_task():
    env = envlab.make(
        "Isaac-Velocity-Flat-Unitree-Go2-v0",
        num_envs=2,
        overrides=["env.sim.cone=elliptic", "env.sim.impratio=10", "env.sim.iterations=5"],
    )
    opt = env.unwrapped.sim.model.opt
    assert (opt.cone, opt.impratio, opt.iterations) == (1, 10.0, 5)
