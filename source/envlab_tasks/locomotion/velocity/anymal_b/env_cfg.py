"""ANYmal B's velocity tasks. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- ANYmal B's drives are ANYmal D's PD control within a DC motor's limits; Isaac Lab has an LSTM
  network within the same limits.
- The agents with symmetry (``rsl_rl_with_symmetry_cfg_entry_point``) are missing;
  ``agent.algorithm.symmetry_cfg`` has the same effect.
"""

from __future__ import annotations

from envlab_tasks.locomotion.velocity.quadrupeds import anymal, flat_anymal
from envlab_tasks.locomotion.velocity.variants import full_terrains, on_rough_ground, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg

MODEL = "envlab_assets:robots/anymal_b.xml"


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Anymal-B-v0."""
    return flat_anymal(MODEL)


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Anymal-B-Play-v0."""
    return to_play(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Anymal-B-v0."""
    return on_rough_ground(anymal(MODEL), full_terrains())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Anymal-B-Play-v0."""
    return to_play(rough())
