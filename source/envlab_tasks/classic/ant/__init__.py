"""Run on four legs towards a far target."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Ant-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.ant_env_cfg:AntEnvCfg",
        "fast_sac_cfg_entry_point": f"{_AGENTS}:fast_sac_cfg.yaml",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_ppo_cfg.yaml",
        "description": "Run on four legs (manager-based).",
    },
)

gymnasium.register(
    id="Isaac-Ant-Direct-v0",
    entry_point=f"{__name__}.ant_direct_env:AntDirectEnv",
    vector_entry_point=f"{__name__}.ant_direct_env:AntDirectEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.ant_direct_env:AntDirectEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_direct_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_direct_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_direct_ppo_cfg.yaml",
        "description": "Run on four legs, without sensing contact forces at the feet (direct).",
    },
)
