"""The analytic backend against MuJoCo, and models it refuses.

Tolerances: it computes in float32, MuJoCo in float64. Over 80 control steps under random controls
the largest differences measured were 5e-6 in positions and 9e-6 in velocities (cart-pole), 7e-6 and
3e-5 (double pendulum, over 40 steps, as it is chaotic), 1e-5 and 2e-4 (drones, at 140 rad/s).
"""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab.envs.scene import load_model
from envlab.errors import SimulationError
from envlab.sim.simulation import Simulation, SimulationCfg, create_simulation
from tests.envs.refusals import assert_refused
from tests.sim import contract
from tests.sim.models import ALL, CARTPOLE, NUM_ENVS, TARGETS, WALKER, only, walk

FIELDS = ("time", "xpos", "xquat")
RANDOMISED = ("body_mass", "body_inertia", "dof_damping", "dof_armature")

ODD_CART = """
<mujoco>
  <option integrator="{integrator}" gravity="1 -2 -8"/>
  <worldbody>
    <body euler="0 30 40" pos="1 2 3">
      <body name="cart" pos="0.1 0.2 0">
        <joint name="slide" type="slide" axis="0 1 0" damping="3" armature="0.2" ref="0.5"/>
        <geom type="box" size="0.1 0.05 0.05" mass="1.5" contype="0"/>
        <body name="load" pos="0 0 0.1">
          <geom type="sphere" size="0.05" mass="0.4" contype="0"/>
        </body>
        <body name="pole" pos="0 0.02 0.1" euler="20 0 0">
          <joint name="hinge" type="hinge" axis="1 0 0" pos="0.3 0 -0.05" damping="0.1" ref="20"
                 armature="0.01"/>
          <geom type="capsule" fromto="0.1 0 0 0 0.2 0.6" size="0.03" mass="0.3" contype="0"/>
          <body name="tip" pos="0 0.1 0.5" euler="10 20 30">
            <geom type="box" size="0.1 0.02 0.04" pos="0.05 0 0" mass="0.2" contype="0"/>
            {more}
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="push" joint="slide" gear="10" ctrlrange="-0.5 0.8"/>
    <general name="turn" joint="hinge" gear="2" gainprm="0.5" forcerange="-0.2 0.3"/>
    <motor name="pull" joint="slide" gear="-3"/>
  </actuator>
</mujoco>
"""
"""A cart-pole with everything at an angle, welded bodies, and figures in every field."""

ODD_CHAIN = """
<body name="upper" pos="0 0.1 0.1" euler="-40 -10 3">
<joint type="hinge" axis="{axis}" damping="0.02"/>
<geom type="capsule" fromto="0 0 0 0.1 0.1 0.4" size="0.02" mass="0.25" contype="0"/></body>
"""

ODD_DRONE = """
<mujoco>
  <option integrator="{integrator}"/>
  <worldbody>
    <geom type="plane" size="1 1 1" contype="0"/>
    <body name="drone" pos="0 0 1" euler="30 20 10">
      <freejoint/>
      <inertial pos="0.1 -0.2 0.13" euler="10 20 30" mass="2" diaginertia="0.12 0.17 0.26"/>
      <site name="mount" pos="0.1 0.2 -0.1" euler="20 10 5"/>
      <body pos="0.3 0 0.1" euler="0 30 0">
        <inertial pos="0.1 0 0" mass="0.5" diaginertia="0.04 0.04 0.03"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor site="mount" gear="0 0 20 0 0 0.1" ctrlrange="0 1"/>
    <motor site="mount" gear="0 1 0 1 0 0"/>
    <motor site="mount" gear="0 0 0 0 1 0"/>
    <motor site="mount" gear="0 0 0 0 0 1"/>
  </actuator>
</mujoco>
"""
"""A drone whose centre of mass, axes and motors are off the origin, with a second body."""


HINGE = '<joint name="hinge" type="hinge" axis="0 1 0"'


def odd_chain(integrator: str = "implicitfast") -> str:
    model = mujoco.MjModel.from_xml_string(ODD_CART.format(integrator=integrator, more=""))
    # The upper hinge must be parallel to the lower one, whatever the frames between them.
    frame = torch.as_tensor(model.body("tip").quat)
    inverse = torch.zeros(3, dtype=torch.float64).numpy()
    mujoco.mju_rotVecQuat(inverse, [1.0, 0.0, 0.0], (frame * torch.tensor([1, -1, -1, -1])).numpy())
    upper = torch.zeros(4, dtype=torch.float64).numpy()
    mujoco.mju_euler2Quat(upper, [math.radians(a) for a in (-40, -10, 3)], "xyz")
    mujoco.mju_negQuat(upper, upper)
    mujoco.mju_rotVecQuat(inverse, inverse.copy(), upper)
    axis = " ".join(map(str, inverse))
    return ODD_CART.format(integrator=integrator, more=ODD_CHAIN.format(axis=axis))


MODELS = {
    "cartpole": "cartpole.xml",
    "double_pendulum": "cart_double_pendulum.xml",
    "quadcopter": "quadcopter.xml",
    "odd_cart": ODD_CART.format(integrator="implicitfast", more=""),
    "odd_cart_euler": ODD_CART.format(integrator="Euler", more=""),
    "odd_chain": odd_chain(),
    "odd_drone": ODD_DRONE.format(integrator="implicitfast"),
    "odd_drone_euler": ODD_DRONE.format(integrator="Euler"),
}
CONTROLS = {
    "cartpole": (100.0,),
    "double_pendulum": (100.0, 20.0),
    "quadcopter": (0.3, 5e-4, 5e-4, 5e-4),
}
CHAOTIC = ("double_pendulum", "odd_chain")
TOLERANCES = {"qpos": 1e-4, "qvel": 1e-3, "xpos": 1e-4, "xquat": 1e-4, "time": 1e-5}


def build(source: str, backend: str = "analytic", **cfg) -> Simulation:
    if source.endswith(".xml"):
        model = load_model(f"envlab_assets:robots/{source}")
    else:
        model = mujoco.MjModel.from_xml_string(source)
    sim_cfg, cpu = SimulationCfg(dt=0.01, backend=backend, **cfg), torch.device("cpu")
    return create_simulation(sim_cfg, model, NUM_ENVS, decimation=2, device=cpu)


def starts(model: mujoco.MjModel, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions and velocities to start from."""
    qpos = torch.as_tensor(model.qpos0, dtype=torch.float32).repeat(NUM_ENVS, 1)
    qpos += torch.randn(NUM_ENVS, model.nq, generator=generator)
    if model.nq == 7:
        qpos[:, 3:] /= qpos[:, 3:].norm(dim=1, keepdim=True)
    return qpos, 0.5 * torch.randn(NUM_ENVS, model.nv, generator=generator)


def assert_agree(ours: Simulation, theirs: Simulation) -> None:
    for name, tensor in ours.data.items():
        difference = (tensor - theirs.data[name]).abs().max().item()
        assert difference <= TOLERANCES[name], f"{name} differs by {difference:.1e}"


@pytest.mark.parametrize("name", MODELS)
def test_trajectories_are_those_of_mujoco(name):
    for randomised in (False, True):
        follow(name, randomised)


def follow(name: str, randomised: bool) -> None:
    """Drive both backends alike, with resets, wrenches and changes of parameters."""
    cfg = {"data_fields": FIELDS, "model_fields": RANDOMISED if randomised else ()}
    pair = [build(MODELS[name], backend, **cfg) for backend in ("analytic", "mujoco")]
    model = pair[0].model
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor(CONTROLS.get(name, (1.0,) * model.nu))
    factors = 0.7 + 0.6 * torch.rand(NUM_ENVS, generator=generator)
    for step in range(40 if name in CHAOTIC else 80):
        if step % 20 == 0:
            if randomised:
                for simulation in pair:
                    for _, values in simulation.params.items():
                        values *= factors.view(-1, *[1] * (values.dim() - 1))
                    simulation.apply_params()
            mask = ALL if step == 0 else torch.rand(NUM_ENVS, generator=generator) < 0.5
            state = starts(model, generator)
            for simulation in pair:
                simulation.reset(mask, *state)
            assert_agree(*pair)
        controls = (2.0 * torch.rand(NUM_ENVS, model.nu, generator=generator) - 1.0) * scale
        wrench = torch.randn(NUM_ENVS, model.nbody - 1, 6, generator=generator)
        wrench *= 0.1 * model.body_subtreemass[0]
        if name == "quadcopter":
            wrench[..., 3:] *= 1e-2
        for simulation in pair:
            simulation.ctrl.copy_(controls)
            if step > 10:
                simulation.apply_wrench(
                    range(1, model.nbody), wrench[..., :3], 0.1 * wrench[..., 3:]
                )
            simulation.step()
        assert_agree(*pair)


def test_models_that_it_cannot_simulate_are_refused_in_one_sentence():
    crooked = ODD_CART.format(integrator="Euler", more=ODD_CHAIN.format(axis="0 1 1"))
    changed = {
        "its joints are free, hinge, hinge": WALKER,
        "its joints are slide": TARGETS,
        "'hinge' has a range": CARTPOLE.replace(HINGE, f'{HINGE} range="-1 1" limited="true"'),
        "frictionloss": CARTPOLE.replace(HINGE, f'{HINGE} frictionloss="1"'),
        "spring": CARTPOLE.replace(HINGE, f'{HINGE} stiffness="1"'),
        "not perpendicular to the": CARTPOLE.replace(HINGE, HINGE.replace("0 1 0", "1 1 0")),
        "its integrator is rk4": CARTPOLE.replace("implicitfast", "RK4"),
        "in a fluid": CARTPOLE.replace('"implicitfast"', '"implicitfast" viscosity="1"'),
        "is not a plain motor": CARTPOLE.replace("<motor", "<position"),
        "the geoms wall and #1 can touch": CARTPOLE.replace(
            "<worldbody>", '<worldbody><geom name="wall" size="1"/>'
        ),
        "its free joint has damping": MODELS["odd_drone"].replace(
            "<freejoint/>", '<joint type="free" damping="1"/>'
        ),
        "or not that of the other hinge": crooked,
    }
    plain = ' gear="10" ctrlrange="-1 1"/>', ' ctrlrange="-1 1"/>'
    assert_refused(
        {
            rf"^[^\n]*{words}[^\n]*Use env\.sim\.backend=mujoco[^\n]*$": (
                lambda xml=xml: build(xml.replace(*plain))
            )
            for words, xml in changed.items()
        },
        SimulationError,
    )


def test_what_it_does_not_compute_is_refused():
    def cartpole(**cfg: object) -> Simulation:
        return build(MODELS["cartpole"], **cfg)

    assert_refused(
        {
            r"data_fields names 'sensordata'.*has only qpos, qvel": (
                lambda: cartpole(data_fields=("sensordata",))
            ),
            "Did you mean xpos": lambda: cartpole(data_fields=("xpo",)),
            r"model_fields names 'geom_friction'.*body_mass": (
                lambda: cartpole(model_fields=("geom_friction",))
            ),
        }
    )
    with pytest.raises(SimulationError, match=r"casts no rays.*backend=mujoco"):
        cartpole().rays(torch.zeros(NUM_ENVS, 1, 3), torch.ones(NUM_ENVS, 1, 3))


def test_a_reset_leads_to_the_models_pose_and_minds_its_mask():
    contract.check_reset(build(MODELS["odd_cart"], data_fields=FIELDS))


def test_state_resumes_bit_for_bit():
    cfg = {"data_fields": FIELDS, "model_fields": RANDOMISED}
    for name in ("odd_chain", "odd_drone"):
        contract.check_resume(*(build(MODELS[name], **cfg) for _ in range(2)))


def test_a_broken_state_is_reported_and_a_reset_recovers():
    contract.check_recovery(build(MODELS["quadcopter"]), math.nan, math.inf, 1e11)


def test_model_and_data_of_an_environment_are_mujocos():
    simulation = build(MODELS["odd_chain"], data_fields=FIELDS, model_fields=RANDOMISED)
    simulation.params.body_mass[2] *= 3.0
    simulation.apply_params(only(2))
    walk(simulation, 5)
    nominal = simulation.model.body_subtreemass[0]
    assert simulation.model_of(2).body_subtreemass[0] == pytest.approx(3.0 * nominal)
    assert simulation.model_of(1).body_subtreemass[0] == pytest.approx(nominal)
    data = simulation.data_of(2)
    assert torch.allclose(torch.as_tensor(data.xpos).float(), simulation.data.xpos[2], atol=1e-5)
    assert data.time == pytest.approx(0.1)
