"""Changes of ANYmal D to :class:`VelocityEnvCfg`, on any ground. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Outside Envlab-Velocity-Flat-ActuatorNet-Anymal-D-v0, ANYmal D's drives are PD control with 80 N
  m/rad and 2 N m s/rad within a DC motor's limits, with an armature of 0.01 kg m^2; Isaac Lab has
  an LSTM network within the same limits. The gains are those of legged_gym's ANYmal C, which has
  the same drives.
- ANYmal D's masses are those of ANYbotics' anymal_d_simple_description, 51.5 kg in all.
- The agents with symmetry (``rsl_rl_with_symmetry_cfg_entry_point``) are missing;
  ``agent.algorithm.symmetry_cfg`` has the same effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SimulationCfg, default
from envlab.envs.managers import RewardTermCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    EventsCfg,
    RewardsCfg,
    VelocityEnvCfg,
    feet_air_time,
    undesired_contacts,
)

MODEL = "envlab_assets:robots/anymal_d.xml"
FEET = ".*_FOOT"


@dataclass(kw_only=True)
class AnymalDRewardsCfg(RewardsCfg):
    """The same, by ANYmal's names."""

    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.125, FEET))
    undesired_contacts: RewardTermCfg | None = default(undesired_contacts(".*_THIGH"))


NO_PUSHES = EventsCfg(base_external_force_torque=None, push_robot=None)


@dataclass(kw_only=True)
class AnymalDEnvCfg(VelocityEnvCfg):
    """ANYmal D on any ground."""

    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=("sensordata", "actuator_force"),
            substep_fields=("qvel",),
            model_fields=("body_mass", "body_inertia", "body_ipos", "geom_friction"),
            num_contacts_max=96,
            num_constraints_max=384,
        )
    )
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    rewards: RewardsCfg = field(default_factory=AnymalDRewardsCfg)
