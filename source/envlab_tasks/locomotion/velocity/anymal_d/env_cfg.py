"""ANYmal D's velocity tasks. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Outside Envlab-Velocity-Flat-ActuatorNet-Anymal-D-v0, ANYmal D's drives are PD control with 80 N
  m/rad and 2 N m s/rad within a DC motor's limits, with an armature of 0.01 kg m^2; Isaac Lab has
  an LSTM network within the same limits. The gains are those of legged_gym's ANYmal C, which has
  the same drives. The network here was trained from a recording of that motor, as
  docs/actuators.md shows, and not from real drives as Isaac Lab's; its form is the same.
- ANYmal D's masses are those of ANYbotics' anymal_d_simple_description, 51.5 kg in all.
- The agents with symmetry (``rsl_rl_with_symmetry_cfg_entry_point``) are missing;
  ``agent.algorithm.symmetry_cfg`` has the same effect.
"""

from __future__ import annotations

from envlab.envs.actuators import ActuatorNetLSTMCfg
from envlab_tasks.locomotion.velocity.quadrupeds import anymal, flat_anymal
from envlab_tasks.locomotion.velocity.variants import full_terrains, on_rough_ground, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg

MODEL = "envlab_assets:robots/anymal_d.xml"
NETWORK = ActuatorNetLSTMCfg(
    joint_names_expr=[".*HAA", ".*HFE", ".*KFE"],
    network_file="envlab_assets:actuators/anymal_d_lstm.pt",
    saturation_effort=120.0,
    velocity_limit=7.5,
    effort_limit=80.0,
)


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Anymal-D-v0."""
    return flat_anymal(MODEL)


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Anymal-D-Play-v0."""
    return to_play(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Anymal-D-v0."""
    return on_rough_ground(anymal(MODEL), full_terrains())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Anymal-D-Play-v0."""
    return to_play(rough())


def flat_by_network() -> VelocityEnvCfg:
    """Return Envlab-Velocity-Flat-ActuatorNet-Anymal-D-v0, whose actuators are an LSTM network."""
    cfg = flat()
    cfg.scene.actuators = {"legs": NETWORK}
    return cfg
