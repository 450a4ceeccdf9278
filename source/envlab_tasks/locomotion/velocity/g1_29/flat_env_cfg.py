"""Mjlab-Velocity-Flat-Unitree-G1. The numbers are mjlab 1.6.0's."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab_assets.robots.g1_29 import MODEL
from envlab_tasks.locomotion.velocity.g1_29.base_env_cfg import NO_PUSHES, G1EnvCfg
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    NO_NOISE,
    SECOND_STAGE,
    CommandsCfg,
    CurriculumCfg,
    EventsCfg,
    ObservationsCfg,
)


@dataclass(kw_only=True)
class G1FlatEnvCfg(G1EnvCfg):
    """G1 on a plane."""


@dataclass(kw_only=True)
class G1FlatPlayEnvCfg(G1FlatEnvCfg):
    """Few robots, no noise, no pushes, commands of the second stage from the first step on."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    commands: CommandsCfg = default(SECOND_STAGE)
    events: EventsCfg = default(NO_PUSHES)
    curriculum: CurriculumCfg | None = None
