"""A1's velocity tasks by Isaac Lab 2.3, with its numbers.

Differs from Isaac Lab 2.3.2:

- A1's base is called ``base``, as in legged_gym, and its masses are those of legged_gym's file,
  12.5 kg in all.
- A1's motors are MuJoCo's, whose damping acts within a physics step; Isaac Lab's are computed
  before it, as here with ``env.scene.actuators.base_legs.in_torch=true``.
"""

from __future__ import annotations

from envlab.envs.actuators import DCMotorCfg
from envlab_tasks.locomotion.velocity.quadrupeds import flat_small, small
from envlab_tasks.locomotion.velocity.variants import on_rough_ground, small_terrains, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg

MODEL = "envlab_tasks:locomotion/velocity/a1/a1.xml"
LEGS = DCMotorCfg(
    joint_names_expr=[".*_joint"],
    stiffness=25.0,
    damping=0.5,
    effort_limit=33.5,
    saturation_effort=33.5,
    velocity_limit=21.0,
)


def with_motors(cfg: VelocityEnvCfg) -> VelocityEnvCfg:
    """Replace the file's motors, which are legged_gym's, by Isaac Lab's."""
    cfg.scene.actuators = {"base_legs": LEGS}
    return cfg


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Unitree-A1-v0."""
    return with_motors(flat_small(MODEL))


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Unitree-A1-Play-v0."""
    return to_play(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Unitree-A1-v0."""
    return on_rough_ground(with_motors(small(MODEL)), small_terrains())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Unitree-A1-Play-v0."""
    return to_play(rough())
