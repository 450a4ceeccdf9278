"""Envlab-Repose-Cube-Leap-Direct-v0: the Allegro hand's numbers, with the LEAP hand.

The figures of the hand and its cube are MuJoCo Playground's (see leap.xml).
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from envlab.envs import SceneCfg, default
from envlab_tasks.in_hand import scene
from envlab_tasks.in_hand.repose_cube_direct.allegro_env_cfg import AllegroHandEnvCfg

HOME = {"(if|mf|rf)_(mcp|pip|dip)": 0.8, "th_(cmc|axl|mcp)": 0.8}
"""The pose in which episodes start, in rad."""


def look(spec: mujoco.MjSpec) -> None:
    """Add the camera."""
    scene.add_camera(spec, (0.283, -0.627, 0.98), 24.0)


def feel(spec: mujoco.MjSpec) -> None:
    """Let the fingertips' velocities be read."""
    scene.add_velocity_sensors(spec, ["if_ds", "mf_ds", "rf_ds", "th_ds"])


def leap_scene() -> SceneCfg:
    """Return the scene of a LEAP hand with Playground's cube, 4 cm above the palm's place."""
    object = scene.cube(0.035, (0.0, -0.11, 0.57), mass=0.108, friction=0.3)
    return scene.scene("leap_cube", scene.hand("leap", HOME, feel), object, look)


@dataclass(kw_only=True)
class LeapHandEnvCfg(AllegroHandEnvCfg):
    """Turn a cube of 7 cm with 16 joints, for 10 seconds at 30 Hz."""

    scene: SceneCfg = default(leap_scene())
    actuated_joint_names: str | list[str] = "(if|mf|rf|th)_.*"
    fingertip_body_names: str | list[str] = ".*_ds"
    goal_marker_pos: tuple[float, float, float] = (-0.13, -0.21, 0.6)
