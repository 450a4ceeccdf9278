"""Go1's velocity tasks by Isaac Lab 2.3, with its numbers.

Differs from Isaac Lab 2.3.2:

- Go1's motors are PD control with 20 N m/rad and 0.5 N m s/rad behind a DC motor's torque-speed
  line, with the armature of their rotors. Isaac Lab has a network (``GO1_ACTUATOR_CFG``), which has
  no gains. It comes from walk-these-ways, which runs the robot with these gains
  (``go1_config.py``).
- Go1's masses are those of the MuJoCo Menagerie, 12.7 kg in all.
"""

from __future__ import annotations

from envlab_assets.robots.go1 import MODEL
from envlab_tasks.locomotion.velocity.quadrupeds import flat_small, small
from envlab_tasks.locomotion.velocity.variants import on_rough_ground, small_terrains, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Unitree-Go1-v0."""
    return flat_small(MODEL, base="trunk")


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Unitree-Go1-Play-v0."""
    return to_play(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Unitree-Go1-v0."""
    return on_rough_ground(small(MODEL, base="trunk"), small_terrains())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Unitree-Go1-Play-v0."""
    return to_play(rough())
