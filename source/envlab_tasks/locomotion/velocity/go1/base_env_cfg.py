"""Changes of Go1 to :class:`SmallQuadrupedEnvCfg`, on any ground. Numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Go1's motors are PD control with 20 N m/rad and 0.5 N m s/rad behind a DC motor's torque-speed
  line, with the armature of their rotors. Isaac Lab has a network (``GO1_ACTUATOR_CFG``), which has
  no gains. It comes from walk-these-ways, which runs the robot with these gains
  (``go1_config.py``).
- Go1's masses are those of the MuJoCo Menagerie, 12.7 kg in all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default
from envlab.envs.managers import EventTermCfg
from envlab_assets.robots.go1 import MODEL
from envlab_tasks.locomotion.velocity.small_quadruped_env_cfg import (
    SmallEventsCfg,
    SmallQuadrupedEnvCfg,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    EventsCfg,
    TerminationsCfg,
    base_contact,
    base_mass,
    external_wrench,
)

TRUNK = "trunk"


@dataclass(kw_only=True)
class Go1EventsCfg(SmallEventsCfg):
    """The trunk weighs 1 kg less to 3 kg more."""

    add_base_mass: EventTermCfg | None = default(base_mass(TRUNK, -1.0, 3.0))
    base_external_force_torque: EventTermCfg | None = default(external_wrench(TRUNK))


NO_PUSHES = Go1EventsCfg(base_external_force_torque=None)


@dataclass(kw_only=True)
class Go1EnvCfg(SmallQuadrupedEnvCfg):
    """Go1 on any ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    events: EventsCfg = field(default_factory=Go1EventsCfg)
    terminations: TerminationsCfg = default(TerminationsCfg(base_contact=base_contact(TRUNK)))
