"""Envlab-Velocity-{Flat,Rough}-Blind-Unitree-Go2-v0: Go2 with its own sensors alone.

The group ``policy`` has neither the base's velocity, which no sensor of the robot measures, nor the
scan of the ground. The group ``critic`` has the observations of Isaac-Velocity-Flat-Unitree-Go2-v0
and Isaac-Velocity-Rough-Unitree-Go2-v0, without noise, so that their policies can teach here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import default
from envlab.envs.managers import ObservationTermCfg
from envlab_tasks.locomotion.velocity.go2.flat_env_cfg import Go2FlatEnvCfg
from envlab_tasks.locomotion.velocity.go2.rough_env_cfg import Go2RoughEnvCfg
from envlab_tasks.locomotion.velocity.rough_ground import RoughPolicyCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    ObservationsCfg,
    PolicyCfg,
)


@dataclass(kw_only=True)
class BlindPolicyCfg(PolicyCfg):
    """Gyroscope, gravity, command, joints and the last action."""

    base_lin_vel: ObservationTermCfg | None = None  # type: ignore[assignment]


@dataclass(kw_only=True)
class FlatTeacherCfg(ObservationsCfg):
    """The student's group, and the teacher's on a plane."""

    policy: PolicyCfg = field(default_factory=BlindPolicyCfg)
    critic: PolicyCfg = default(PolicyCfg(enable_corruption=False))


@dataclass(kw_only=True)
class RoughTeacherCfg(ObservationsCfg):
    """The student's group, and the teacher's, who sees the ground."""

    policy: PolicyCfg = field(default_factory=BlindPolicyCfg)
    critic: PolicyCfg = default(RoughPolicyCfg(enable_corruption=False))


@dataclass(kw_only=True)
class Go2FlatBlindEnvCfg(Go2FlatEnvCfg):
    """Go2 on a plane."""

    observations: ObservationsCfg = field(default_factory=FlatTeacherCfg)


@dataclass(kw_only=True)
class Go2RoughBlindEnvCfg(Go2RoughEnvCfg):
    """Go2 on stairs, blocks, noise and slopes."""

    observations: ObservationsCfg = field(default_factory=RoughTeacherCfg)
