"""Changes of Go2 to :class:`SmallQuadrupedEnvCfg`, on any ground. Numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Joints have an armature of 0.01 kg m^2, as in the MuJoCo Menagerie; Isaac Lab's configuration sets
  none.
"""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab_tasks.locomotion.velocity.small_quadruped_env_cfg import (
    SmallEventsCfg,
    SmallQuadrupedEnvCfg,
)

MODEL = "envlab_assets:robots/go2.xml"


NO_PUSHES = SmallEventsCfg(base_external_force_torque=None)


@dataclass(kw_only=True)
class Go2EnvCfg(SmallQuadrupedEnvCfg):
    """Go2 on any ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
