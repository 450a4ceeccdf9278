"""A humanoid that follows velocity commands: Unitree G1."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Velocity-Flat-G1-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.flat_env_cfg:G1FlatEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_flat_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_flat_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_flat_ppo_cfg.yaml",
        "description": "A humanoid, Unitree G1 with hands, follows commands on flat ground.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Flat-G1-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.flat_env_cfg:G1FlatPlayEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_flat_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_flat_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_flat_ppo_cfg.yaml",
        "description": "G1 on flat ground with few robots, no noise and no pushes, for playing.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Rough-G1-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.rough_env_cfg:G1RoughEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_rough_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_rough_ppo_cfg.yaml",
        "description": "A humanoid, Unitree G1 with hands, follows commands on rough ground.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Rough-G1-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.rough_env_cfg:G1RoughPlayEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_rough_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_rough_ppo_cfg.yaml",
        "description": "G1 walks straight on over rough ground: few robots and tiles, no noise.",
    },
)
