"""Vectorised environments: :class:`DirectEnv` to subclass, :class:`ManagerEnv` to compose.

Several agents: :class:`DirectMarlEnv`, and as one agent :func:`multi_agent_to_single_agent`.
Without physics: :class:`BatchedEnv`.
"""

from envlab.envs.batched_env import BatchedEnv
from envlab.envs.cfg import EnvCfg, NanGuardCfg, default
from envlab.envs.direct_env import DirectEnv, DirectEnvCfg
from envlab.envs.direct_marl_env import DirectMarlEnv, DirectMarlEnvCfg
from envlab.envs.discrete import DiscreteCfg
from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.entity_cfg import EntityCfg, ShapeCfg, VariantCfg
from envlab.envs.initial_state import InitialStateCfg
from envlab.envs.manager_env import ManagerEnv, ManagerEnvCfg
from envlab.envs.managers import ManagerTermBase
from envlab.envs.noise import (
    ConstantNoiseCfg,
    GaussianNoiseCfg,
    NoiseCfg,
    NoiseModelWithAdditiveBiasCfg,
    UniformNoiseCfg,
)
from envlab.envs.scene import SceneCfg
from envlab.envs.single_agent import SingleAgentEnv, multi_agent_to_single_agent
from envlab.envs.vector_env import VectorEnv
from envlab.sim.simulation import SimulationCfg

__all__ = [
    "BatchedEnv",
    "ConstantNoiseCfg",
    "DirectEnv",
    "DirectEnvCfg",
    "DirectMarlEnv",
    "DirectMarlEnvCfg",
    "DiscreteCfg",
    "EntityCfg",
    "EnvCfg",
    "GaussianNoiseCfg",
    "InitialStateCfg",
    "ManagerEnv",
    "ManagerEnvCfg",
    "ManagerTermBase",
    "NanGuardCfg",
    "NoiseCfg",
    "NoiseModelWithAdditiveBiasCfg",
    "SceneCfg",
    "SceneEntity",
    "SceneEntityCfg",
    "ShapeCfg",
    "SimulationCfg",
    "SingleAgentEnv",
    "UniformNoiseCfg",
    "VariantCfg",
    "VectorEnv",
    "default",
    "multi_agent_to_single_agent",
]
