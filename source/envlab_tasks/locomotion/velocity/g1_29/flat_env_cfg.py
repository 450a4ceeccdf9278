"""Mjlab-Velocity-Flat-Unitree-G1. The numbers are mjlab 1.6.0's.

Differs from mjlab 1.6.0:

- Some episodes may begin in mid-walk (``events.start_in_motion``); by default, none does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default, mdp
from envlab.envs.managers import EventTermCfg
from envlab.envs.terms import at_reset
from envlab_assets.robots.g1_29 import MODEL
from envlab_tasks.locomotion.velocity.g1_29.base_env_cfg import G1EnvCfg, G1EventsCfg
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    NO_NOISE,
    SECOND_STAGE,
    CommandsCfg,
    CurriculumCfg,
    EventsCfg,
    ObservationsCfg,
)


@dataclass(kw_only=True)
class G1FlatEventsCfg(G1EventsCfg):
    """A share of episodes may begin in a walk."""

    start_in_motion: EventTermCfg | None = default(
        at_reset(
            mdp.reset_to_motion_frame,
            motion_file="envlab_assets:motions/g1_walk.npz",
            share=0.0,
        )
    )


@dataclass(kw_only=True)
class G1FlatEnvCfg(G1EnvCfg):
    """G1 on a plane."""

    events: EventsCfg = field(default_factory=G1FlatEventsCfg)


@dataclass(kw_only=True)
class G1FlatPlayEnvCfg(G1FlatEnvCfg):
    """Few robots, no noise, no pushes, commands of the second stage from the start."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    commands: CommandsCfg = default(SECOND_STAGE)
    events: EventsCfg = default(G1FlatEventsCfg(push_robot=None))
    curriculum: CurriculumCfg | None = None
