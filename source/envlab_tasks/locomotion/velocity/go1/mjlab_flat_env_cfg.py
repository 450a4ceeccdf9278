"""Mjlab-Velocity-Flat-Unitree-Go1. The numbers are mjlab 1.6.0's."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab_assets.robots.go1 import MJLAB_MODEL
from envlab_tasks.locomotion.velocity.go1.mjlab_base_env_cfg import NO_PUSHES, Go1EnvCfg
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    NO_NOISE,
    SECOND_STAGE,
    CommandsCfg,
    CurriculumCfg,
    EventsCfg,
    ObservationsCfg,
)


@dataclass(kw_only=True)
class Go1FlatEnvCfg(Go1EnvCfg):
    """Go1 on a plane."""


@dataclass(kw_only=True)
class Go1FlatPlayEnvCfg(Go1FlatEnvCfg):
    """Few robots, no noise, no pushes, commands of the second stage from the start."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MJLAB_MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    commands: CommandsCfg = default(SECOND_STAGE)
    events: EventsCfg = default(NO_PUSHES)
    curriculum: CurriculumCfg | None = None
