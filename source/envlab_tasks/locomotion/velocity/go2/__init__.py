"""A quadruped that follows velocity commands: Unitree Go2."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Velocity-Flat-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.flat_env_cfg:Go2FlatEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_flat_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_flat_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_flat_ppo_cfg.yaml",
        "description": "A quadruped, Unitree Go2, follows velocity commands on flat ground.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Flat-Unitree-Go2-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.flat_env_cfg:Go2FlatPlayEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_flat_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_flat_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_flat_ppo_cfg.yaml",
        "description": "Go2 on flat ground with few robots, no noise and no pushes, for playing.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Rough-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.rough_env_cfg:Go2RoughEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_rough_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_rough_ppo_cfg.yaml",
        "description": "A quadruped, Unitree Go2, follows velocity commands on rough ground.",
    },
)

gymnasium.register(
    id="Isaac-Velocity-Rough-Unitree-Go2-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.rough_env_cfg:Go2RoughPlayEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_rough_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_rough_ppo_cfg.yaml",
        "description": "Go2 on rough ground with few robots and tiles, no noise, no curriculum.",
    },
)

gymnasium.register(
    id="Envlab-Velocity-Flat-Blind-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.blind_env_cfg:Go2FlatBlindEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_flat_blind_ppo_cfg.yaml",
        "rsl_rl_distillation_cfg_entry_point": (
            f"{_AGENTS}:rsl_rl_flat_blind_distillation_cfg.yaml"
        ),
        "description": "Go2 follows commands on flat ground without its velocity; for students.",
    },
)

gymnasium.register(
    id="Envlab-Velocity-Rough-Blind-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.blind_env_cfg:Go2RoughBlindEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_blind_ppo_cfg.yaml",
        "rsl_rl_distillation_cfg_entry_point": (
            f"{_AGENTS}:rsl_rl_rough_blind_distillation_cfg.yaml"
        ),
        "description": "Go2 follows commands on rough ground that it does not see; for students.",
    },
)

gymnasium.register(
    id="Envlab-Velocity-Rough-Depth-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.depth_env_cfg:Go2RoughDepthEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_depth_ppo_cfg.yaml",
        "rsl_rl_distillation_cfg_entry_point": (
            f"{_AGENTS}:rsl_rl_rough_depth_distillation_cfg.yaml"
        ),
        "description": "Go2 follows commands on rough ground by a depth camera; for students.",
    },
)

gymnasium.register(
    id="Envlab-Velocity-Rough-Depth-Unitree-Go2-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.depth_env_cfg:Go2RoughDepthPlayEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_rough_depth_ppo_cfg.yaml",
        "rsl_rl_distillation_cfg_entry_point": (
            f"{_AGENTS}:rsl_rl_rough_depth_distillation_cfg.yaml"
        ),
        "description": "Go2 with a depth camera, few robots and tiles, no noise, no curriculum.",
    },
)

gymnasium.register(
    id="Envlab-Velocity-Parkour-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.parkour_env_cfg:Go2ParkourEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_parkour_ppo_cfg.yaml",
        "description": "Go2 goes over gaps, hurdles and steps, with a scan of the ground.",
    },
)

gymnasium.register(
    id="Envlab-Velocity-Parkour-Blind-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.parkour_env_cfg:Go2ParkourBlindEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_parkour_blind_ppo_cfg.yaml",
        "rsl_rl_distillation_cfg_entry_point": (
            f"{_AGENTS}:rsl_rl_parkour_blind_distillation_cfg.yaml"
        ),
        "description": "Go2 goes over gaps, hurdles and steps that it does not see; for students.",
    },
)

gymnasium.register(
    id="Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.parkour_env_cfg:Go2ParkourDepthEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_parkour_depth_ppo_cfg.yaml",
        "rsl_rl_distillation_cfg_entry_point": (
            f"{_AGENTS}:rsl_rl_parkour_depth_distillation_cfg.yaml"
        ),
        "description": "Go2 goes over gaps, hurdles and steps by a depth camera; for students.",
    },
)
