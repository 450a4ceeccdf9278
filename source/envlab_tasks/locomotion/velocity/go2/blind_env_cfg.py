"""Envlab-Velocity-{Flat,Rough}-Blind-Unitree-Go2-v0: Go2 with its own sensors alone.

The group ``policy`` has neither the base's velocity, which no sensor of the robot measures, nor the
scan of the ground. The group ``critic`` has the observations of Isaac-Velocity-Flat-Unitree-Go2-v0
and Isaac-Velocity-Rough-Unitree-Go2-v0, without noise, so that their policies can teach here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from envlab_tasks.locomotion.velocity.go2 import env_cfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    ObservationsCfg,
    PolicyCfg,
    VelocityEnvCfg,
)


@dataclass(kw_only=True)
class TeacherObservationsCfg(ObservationsCfg):
    """The student's group, and the teacher's."""

    critic: PolicyCfg = field(default_factory=PolicyCfg)


def teacher_groups(cfg: VelocityEnvCfg) -> TeacherObservationsCfg:
    """Return groups in which a task's observations, without noise, are those of its teacher."""
    policy, critic = cfg.observations.policy, copy.deepcopy(cfg.observations.policy)
    policy.base_lin_vel = policy.height_scan = None
    critic.enable_corruption = False
    return TeacherObservationsCfg(policy=policy, critic=critic)


def blind(cfg: VelocityEnvCfg) -> VelocityEnvCfg:
    """Leave a task's policy gyroscope, gravity, command, joints and the last action."""
    cfg.observations = teacher_groups(cfg)
    return cfg


def flat() -> VelocityEnvCfg:
    """Return the task on a plane."""
    return blind(env_cfg.flat())


def rough() -> VelocityEnvCfg:
    """Return the task on stairs, blocks, noise and slopes."""
    return blind(env_cfg.rough())
