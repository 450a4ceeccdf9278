"""Balance a pole on a cart that is pushed along a rail."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Cartpole-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_env_cfg:CartpoleEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_ppo_cfg.yaml",
        "rsl_rl_distillation_cfg_entry_point": f"{_AGENTS}:rsl_rl_distillation_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_ppo_cfg.yaml",
        "description": "Balance a pole on a cart (manager-based).",
    },
)

gymnasium.register(
    id="Isaac-Cartpole-Direct-v0",
    entry_point=f"{__name__}.cartpole_direct_env:CartpoleDirectEnv",
    vector_entry_point=f"{__name__}.cartpole_direct_env:CartpoleDirectEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_direct_env:CartpoleDirectEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_direct_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_direct_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_direct_ppo_cfg.yaml",
        "description": "Balance a pole on a cart; the episode ends if the pole falls (direct).",
    },
)

gymnasium.register(
    id="Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0",
    entry_point=f"{__name__}.cartpole_showcase_env:CartpoleDiscreteEnv",
    vector_entry_point=f"{__name__}.cartpole_showcase_env:CartpoleDiscreteEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_showcase_env:CartpoleDiscreteEnvCfg",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_discrete_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_discrete_ppo_cfg.yaml",
        "skrl_dqn_cfg_entry_point": f"{_AGENTS}:skrl_dqn_cfg.yaml",
        "description": "Balance a pole on a cart by choosing one of three forces.",
    },
)

gymnasium.register(
    id="Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0",
    entry_point=f"{__name__}.cartpole_showcase_env:CartpoleMultiDiscreteEnv",
    vector_entry_point=f"{__name__}.cartpole_showcase_env:CartpoleMultiDiscreteEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_showcase_env:CartpoleMultiDiscreteEnvCfg",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_multidiscrete_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_multidiscrete_ppo_cfg.yaml",
        "description": "Balance a pole on a cart by choosing a strength and a direction.",
    },
)

gymnasium.register(
    id="Isaac-Cartpole-Depth-Camera-Direct-v0",
    entry_point=f"{__name__}.cartpole_camera_env:CartpoleDepthCameraEnv",
    vector_entry_point=f"{__name__}.cartpole_camera_env:CartpoleDepthCameraEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_camera_env:CartpoleDepthCameraEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_camera_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_camera_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_camera_ppo_cfg.yaml",
        "description": "Balance a pole on a cart, observed by depth images.",
    },
)
