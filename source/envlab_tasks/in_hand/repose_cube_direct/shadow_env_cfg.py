"""Isaac-Repose-Cube-Shadow-Direct-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- The Shadow hand's tendons are limits, as in OpenAI's MJCF; in Isaac Lab they are also springs.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from envlab.envs import DiscreteCfg, SceneCfg, SimulationCfg, default
from envlab_tasks.in_hand import scene
from envlab_tasks.in_hand.repose_cube_direct.in_hand_env import InHandEnvCfg

FIELDS = ("xpos", "xquat", "sensordata")
"""Data that is read for the fingertips."""


def look(spec: mujoco.MjSpec) -> None:
    """Add the camera."""
    scene.add_camera(spec, (0.31, -0.95, 1.05), 32.0)


def feel(spec: mujoco.MjSpec) -> None:
    """Let be read what the link before exerts on each fingertip's link, in its own frame."""
    for finger in ("ff", "mf", "rf", "lf", "th"):
        for kind in ("FORCE", "TORQUE"):
            spec.add_sensor(
                name=f"robot0_{finger}distal_{kind.lower()}",
                type=getattr(mujoco.mjtSensor, f"mjSENS_{kind}"),
                objtype=mujoco.mjtObj.mjOBJ_SITE,
                objname=f"robot0_{finger}distal",
            )


def shadow_scene() -> SceneCfg:
    """Return the scene of a Shadow hand with Isaac Lab's DexCube of 6 cm."""
    hand = scene.hand("shadow", spec_fn=feel)
    return scene.scene("shadow_cube", hand, scene.cube(0.03, (0.0, -0.39, 0.6)), look)


@dataclass(kw_only=True)
class ShadowHandEnvCfg(InHandEnvCfg):
    """Turn a cube of 6 cm with 20 of 24 joints, for 10 seconds at 60 Hz.

    The outermost joint of each finger except the thumb follows the previous one.
    """

    decimation: int = 2
    episode_length_s: float = 10.0
    action_space: int | DiscreteCfg = 20
    observation_space: int | list[int] | None = 157
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=1.0 / 120.0, data_fields=FIELDS, num_contacts_max=64, num_constraints_max=256
        )
    )
    scene: SceneCfg = default(shadow_scene())
    actuated_joint_names: str | list[str] = default(
        ["robot0_WRJ.", "robot0_(FF|MF|RF|LF)J[1-4]", "robot0_THJ."]
    )
    fingertip_body_names: str | list[str] = "robot0_..distal"
