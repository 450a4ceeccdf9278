"""A humanoid that follows velocity commands: Unitree H1."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Velocity-Flat-H1-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.flat_env_cfg:H1FlatEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_flat_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_flat_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_flat_ppo_cfg.yaml",
        "description": "A humanoid, Unitree H1, follows velocity commands on flat ground.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Flat-H1-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.flat_env_cfg:H1FlatPlayEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_flat_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_flat_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_flat_ppo_cfg.yaml",
        "description": "H1 on flat ground with few robots, no noise and no pushes, for playing.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Rough-H1-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.rough_env_cfg:H1RoughEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_rough_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_rough_ppo_cfg.yaml",
        "description": "A humanoid, Unitree H1, follows velocity commands on rough ground.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Rough-H1-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.rough_env_cfg:H1RoughPlayEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_rough_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_rough_ppo_cfg.yaml",
        "description": "H1 walks straight on over rough ground: few robots and tiles, no noise.",
    },
)
