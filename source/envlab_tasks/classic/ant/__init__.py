"""Run on four legs towards a far target."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Ant-v0",
    "ant_env_cfg:AntEnvCfg",
    "Run on four legs (manager-based).",
    libraries=["fast_sac", "rsl_rl", "rl_games", "skrl"],
    fast_sac="fast_sac_cfg",
)
register(
    __name__,
    "Isaac-Ant-Direct-v0",
    "ant_direct_env:AntDirectEnvCfg",
    "Run on four legs, without sensing contact forces at the feet (direct).",
    env=".ant_direct_env:AntDirectEnv",
    agents="{}_direct_ppo_cfg",
)
