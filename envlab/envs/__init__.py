"""Vectorised environments: :class:`DirectEnv` to subclass, :class:`ManagerEnv` to compose."""

from envlab.envs.cfg import EnvCfg, NanGuardCfg
from envlab.envs.direct_env import DirectEnv, DirectEnvCfg
from envlab.envs.manager_env import ManagerEnv, ManagerEnvCfg
from envlab.envs.noise import ConstantNoiseCfg, GaussianNoiseCfg, NoiseCfg, UniformNoiseCfg
from envlab.envs.scene import SceneCfg, SceneEntity, SceneEntityCfg
from envlab.envs.vector_env import VectorEnv
from envlab.sim.simulation import SimulationCfg

__all__ = [
    "ConstantNoiseCfg",
    "DirectEnv",
    "DirectEnvCfg",
    "EnvCfg",
    "GaussianNoiseCfg",
    "ManagerEnv",
    "ManagerEnvCfg",
    "NanGuardCfg",
    "NoiseCfg",
    "SceneCfg",
    "SceneEntity",
    "SceneEntityCfg",
    "SimulationCfg",
    "UniformNoiseCfg",
    "VectorEnv",
]
