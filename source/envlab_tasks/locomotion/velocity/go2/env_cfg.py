"""Go2's velocity tasks by Isaac Lab 2.3, with its numbers.

Differs from Isaac Lab 2.3.2:

- Joints have an armature of 0.01 kg m^2, as in the MuJoCo Menagerie; Isaac Lab's configuration sets
  none.
"""

from __future__ import annotations

from envlab.envs.actuators import ActuatorNetMLPCfg
from envlab_tasks.locomotion.velocity.quadrupeds import flat_small, small
from envlab_tasks.locomotion.velocity.variants import on_rough_ground, small_terrains, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg

MODEL = "envlab_assets:robots/go2.xml"
NETWORK = ActuatorNetMLPCfg(
    joint_names_expr=[".*_joint"],
    network_file="envlab_assets:actuators/go2_mlp.pt",
    saturation_effort=23.5,
    velocity_limit=30.0,
    effort_limit=23.5,
)
"""Trained from a recording of the DC motor of the flat task, as docs/actuators.md shows; its form
and limits are those of Isaac Lab 2.3.2's Go1."""


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Unitree-Go2-v0."""
    return flat_small(MODEL)


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Unitree-Go2-Play-v0."""
    return to_play(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Unitree-Go2-v0."""
    return on_rough_ground(small(MODEL), small_terrains())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Unitree-Go2-Play-v0."""
    return to_play(rough())


def flat_by_network() -> VelocityEnvCfg:
    """Return Envlab-Velocity-Flat-ActuatorNet-Unitree-Go2-v0, whose actuators are a network."""
    cfg = flat()
    cfg.scene.actuators = {"legs": NETWORK}
    return cfg
