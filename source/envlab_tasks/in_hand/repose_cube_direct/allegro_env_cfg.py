"""Isaac-Repose-Cube-Allegro-Direct-v0. The numbers are those of Isaac Lab 2.3.2."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import DiscreteCfg, SceneCfg, SimulationCfg, default
from envlab_tasks.in_hand.repose_cube_direct.in_hand_env import InHandEnvCfg


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
    scene: SceneCfg = default(
        SceneCfg(num_envs=8192, model="envlab_assets:robots/allegro_large_cube.xml")
    )
    actuated_joint_names: str | list[str] = ".*_joint_."
    fingertip_body_names: str | list[str] = ".*_link_3"
    success_tolerance: float = 0.2
