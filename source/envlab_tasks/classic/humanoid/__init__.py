"""Run on two legs towards a far target."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Humanoid-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.humanoid_env_cfg:HumanoidEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_ppo_cfg.yaml",
        "description": "Run on two legs (manager-based).",
    },
)

gymnasium.register(
    id="Isaac-Humanoid-Direct-v0",
    entry_point=f"{__name__}.humanoid_direct_env:HumanoidDirectEnv",
    vector_entry_point=f"{__name__}.humanoid_direct_env:HumanoidDirectEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.humanoid_direct_env:HumanoidDirectEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_direct_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_direct_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_direct_ppo_cfg.yaml",
        "description": "Run on two legs, without sensing contact forces at the feet (direct).",
    },
)
