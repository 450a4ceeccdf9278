"""Isaac-Repose-Cube-Allegro-Direct-v0. The numbers are those of Isaac Lab 2.3.2."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from envlab.envs import DiscreteCfg, SceneCfg, SimulationCfg, default
from envlab_tasks.in_hand import scene
from envlab_tasks.in_hand.repose_cube_direct.in_hand_env import InHandEnvCfg


def look(spec: mujoco.MjSpec) -> None:
    """Add the camera."""
    scene.add_camera(spec, (0.283, -0.747, 1.02), 40.0)


def feel(spec: mujoco.MjSpec) -> None:
    """Let the fingertips' velocities be read."""
    links = [f"{finger}_link_3" for finger in ("index", "middle", "ring", "thumb")]
    scene.add_velocity_sensors(spec, links)


def allegro_scene() -> SceneCfg:
    """Return the scene of an Allegro hand with Isaac Lab's DexCube at a scale of 1.2, so 7.2 cm."""
    hand = scene.hand("allegro", scene.ALLEGRO_HOME, feel)
    return scene.scene("allegro_large_cube", hand, scene.cube(0.036, (0.0, -0.17, 0.56)), look)


@dataclass(kw_only=True)
class AllegroHandEnvCfg(InHandEnvCfg):
    """Turn a cube of 7.2 cm with 16 joints, for 10 seconds at 30 Hz."""

    decimation: int = 4
    episode_length_s: float = 10.0
    action_space: int | DiscreteCfg = 16
    observation_space: int | list[int] | None = 124
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=1.0 / 120.0,
            data_fields=("xpos", "xquat", "sensordata"),
            num_contacts_max=64,
            num_constraints_max=256,
        )
    )
    scene: SceneCfg = default(allegro_scene())
    actuated_joint_names: str | list[str] = ".*_joint_."
    fingertip_body_names: str | list[str] = ".*_link_3"
    success_tolerance: float = 0.2
