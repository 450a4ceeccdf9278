"""Small MJCF models, and how the backend tests build and drive them."""

from __future__ import annotations

import mujoco
import torch

from envlab.sim.simulation import Simulation, SimulationCfg, create_simulation

DT = 0.005
NUM_ENVS = 4
ALL = torch.ones(NUM_ENVS, dtype=torch.bool)

CARTPOLE = """
<mujoco>
  <option integrator="implicitfast"/>
  <worldbody>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0" damping="0.1"/>
      <geom type="box" size="0.1 0.05 0.05" mass="1"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.03" mass="0.1" contype="0"/>
        <site name="tip" pos="0 0 0.6"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" gear="10" ctrlrange="-1 1"/></actuator>
  <sensor>
    <framepos objtype="site" objname="tip"/>
    <jointvel joint="hinge"/>
    <accelerometer site="tip"/>
  </sensor>
</mujoco>
"""
"""A cart-pole with sensors of all three stages: position, velocity, acceleration."""

WALKER = """
<mujoco>
  <option cone="elliptic" integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body name="torso" pos="0 0 0.35">
      <freejoint/>
      <geom type="box" size="0.15 0.1 0.05" mass="2" contype="0" conaffinity="0"/>
      <site name="imu"/>
      <body name="left" pos="0 0.15 0">
        <joint name="left" type="hinge" axis="0 1 0" damping="0.2"/>
        <geom name="left" type="sphere" pos="0.1 0 -0.25" size="0.06" mass="0.3" conaffinity="0"/>
        <site name="sole" pos="0.1 0 -0.25" size="0.1"/>
      </body>
      <body name="right" pos="0 -0.15 0">
        <joint name="right" type="hinge" axis="0 1 0" damping="0.2"/>
        <geom name="right" type="sphere" pos="0.1 0 -0.25" size="0.06" mass="0.3" conaffinity="0"/>
      </body>
      <body name="rear" pos="-0.15 0 0">
        <geom name="rear" type="sphere" pos="0 0 -0.25" size="0.06" mass="0.3" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="left" kp="5"/>
    <position joint="right" kp="5"/>
  </actuator>
  <sensor>
    <framelinvel objtype="site" objname="imu"/>
    <accelerometer site="imu"/>
    <touch site="sole"/>
    <contact geom1="floor" geom2="rear" data="force" reduce="netforce"/>
  </sensor>
</mujoco>
"""
"""A free body on three sphere feet; elliptic cones, on which both backends agree."""

TARGETS = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <geom name="wall" type="box" pos="2 0 1" size="0.1 1 1" group="2"/>
    <body name="ball" pos="0 0 1">
      <joint type="slide" axis="0 0 1"/>
      <geom name="ball" type="sphere" size="0.25" mass="1"/>
    </body>
  </worldbody>
</mujoco>
"""
"""A floor, a wall of group 2 and a sliding ball, for rays."""

STATIC = """
<mujoco>
  <worldbody>
    <body name="table" pos="1 0 0">
      <geom type="box" size="0.2 0.2 0.2"/>
      <body name="cup" pos="0 0 0.5">{joint}<geom type="sphere" size="0.1"/></body>
    </body>
  </worldbody>
</mujoco>
"""
"""A table fixed to the world, and on it a cup, fixed as well unless it is given a joint."""

PILE = """
<mujoco>
  <size memory="24K"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <replicate count="12" offset="0.05 0 0">
      <body pos="0 0 0.09">
        <joint type="slide" axis="0 0 1"/>
        <geom type="sphere" size="0.1"/>
      </body>
    </replicate>
  </worldbody>
</mujoco>
"""
"""Overlapping spheres with 49 contacts, for which 24 KiB of arena are too little."""


def compile_model(xml: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(xml)


def make(
    xml: str,
    backend: str = "mujoco",
    *,
    num_envs: int = NUM_ENVS,
    decimation: int = 1,
    device: str = "cpu",
    **cfg,
) -> Simulation:
    """Return a simulation of a model; further keywords go to its configuration."""
    return create_simulation(
        SimulationCfg(dt=DT, backend=backend, **cfg),
        compile_model(xml),
        num_envs,
        decimation=decimation,
        device=torch.device(device),
    )


def only(*indices: int) -> torch.Tensor:
    """Return a mask of the given environments."""
    mask = torch.zeros(NUM_ENVS, dtype=torch.bool)
    mask[list(indices)] = True
    return mask


def walk(simulation: Simulation, steps: int, seed: int = 0) -> None:
    """Step under random controls that depend on the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        simulation.ctrl.copy_(torch.rand(simulation.ctrl.shape, generator=generator) - 0.5)
        simulation.step()


def fields(simulation: Simulation) -> dict[str, torch.Tensor]:
    """Return copies of all declared fields."""
    return {name: tensor.clone() for name, tensor in simulation.data.items()}


def assert_equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    """Assert equality to the bit."""
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name
