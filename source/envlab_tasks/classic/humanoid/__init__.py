"""Run on two legs towards a far target."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Humanoid-v0",
    "humanoid_env_cfg:HumanoidEnvCfg",
    "Run on two legs (manager-based).",
)
register(
    __name__,
    "Isaac-Humanoid-Direct-v0",
    "humanoid_direct_env:HumanoidDirectEnvCfg",
    "Run on two legs, without sensing contact forces at the feet (direct).",
    env=".humanoid_direct_env:HumanoidDirectEnv",
    agents="{}_direct_ppo_cfg",
)
