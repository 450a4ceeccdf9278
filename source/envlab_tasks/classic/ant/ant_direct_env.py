"""Isaac-Ant-Direct-v0. The numbers are those of Isaac Lab 2.3.2 (direct Ant)."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import DiscreteCfg, SceneCfg, default
from envlab_tasks.classic.locomotion.locomotion_env import LocomotionEnv, LocomotionEnvCfg


@dataclass(kw_only=True)
class AntDirectEnvCfg(LocomotionEnvCfg):
    """Run on four legs."""

    action_space: int | DiscreteCfg = 8
    observation_space: int | list[int] | None = 36
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/ant.xml"))
    action_scale: float = 0.5
    joint_gears: dict[str, float] = default({".*": 15.0})
    actions_cost_scale: float = 0.005
    alive_reward_scale: float = 0.5
    death_cost: float = -2.0
    termination_height: float = 0.31
    dof_vel_scale: float = 0.2


class AntDirectEnv(LocomotionEnv):
    """See :class:`LocomotionEnv`."""

    cfg: AntDirectEnvCfg
