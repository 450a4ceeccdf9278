"""Envlab-Repose-Cube-Leap-Direct-v0: the Allegro hand's numbers, with the LEAP hand.

The figures of the hand and its cube are MuJoCo Playground's (see leap.xml and leap_cube.xml).
"""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab_tasks.in_hand.repose_cube_direct.allegro_env_cfg import AllegroHandEnvCfg


@dataclass(kw_only=True)
class LeapHandEnvCfg(AllegroHandEnvCfg):
    """Turn a cube of 7 cm with 16 joints, for 10 seconds at 30 Hz."""

    scene: SceneCfg = default(SceneCfg(num_envs=8192, model="envlab_assets:robots/leap_cube.xml"))
    actuated_joint_names: str | list[str] = "(if|mf|rf|th)_.*"
    fingertip_body_names: str | list[str] = ".*_ds"
    goal_marker_pos: tuple[float, float, float] = (-0.13, -0.21, 0.6)
