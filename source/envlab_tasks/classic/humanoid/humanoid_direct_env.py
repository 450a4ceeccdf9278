"""Isaac-Humanoid-Direct-v0. The numbers are those of Isaac Lab 2.3.2 (direct Humanoid)."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import DiscreteCfg, SceneCfg, default
from envlab_tasks.classic.humanoid.humanoid_env_cfg import GEARS
from envlab_tasks.classic.locomotion.locomotion_env import LocomotionEnv, LocomotionEnvCfg


@dataclass(kw_only=True)
class HumanoidDirectEnvCfg(LocomotionEnvCfg):
    """Run on two legs."""

    action_space: int | DiscreteCfg = 21
    observation_space: int | list[int] | None = 75
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/humanoid.xml"))
    joint_gears: dict[str, float] = default(dict(GEARS))
    actions_cost_scale: float = 0.01
    alive_reward_scale: float = 2.0
    death_cost: float = -1.0
    termination_height: float = 0.8
    dof_vel_scale: float = 0.1
    angular_velocity_scale: float = 0.25


class HumanoidDirectEnv(LocomotionEnv):
    """See :class:`LocomotionEnv`."""

    cfg: HumanoidDirectEnvCfg
